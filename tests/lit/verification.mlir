// RUN: shardwright-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{duplicate axis name: "x"}}
sdy.mesh @duplicate = <["x"=2, "x"=2]>

// -----

sdy.mesh @mesh = <["x"=2]>

// expected-error@below {{'func.func' op arg 0 - sharding doesn't match tensor rank: 2 != 1}}
func.func @rank(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {?}]>}) -> tensor<8xf32> {
  return %arg0 : tensor<8xf32>
}

// -----

func.func @unknown_mesh(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@nowhere, [{"x"}]>}) -> tensor<8xf32> {
  return %arg0 : tensor<8xf32>
}
// expected-error@-3 {{'func.func' op arg 0 - unknown mesh: @nowhere}}

// -----

sdy.mesh @mesh = <["x"=4]>

// expected-error-re @+1 {{sub-axis next pre-size {{[0-9]+}} doesn't divide the size of the full axis {{[0-9]+}}: "x":(1)3}}
func.func @sub_axis(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)3}]>}) -> tensor<8xf32> {
  return %arg0 : tensor<8xf32>
}

// -----

func.func @types(%arg0: tensor<8xf32>) -> tensor<8xi32> {
  // expected-note@+1 {{prior use here}}
  %0 = stablehlo.negate %arg0 : tensor<8xf32>
  // expected-error@+1 {{use of value '%0' expects different type than prior uses: 'tensor<8xi32>' vs 'tensor<8xf32>'}}
  return %0 : tensor<8xi32>
}
