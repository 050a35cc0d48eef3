sdy.mesh @mesh = <["a"=2, "b"=2]>
func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  %0 = "some.op"(%arg0) ({
  ^bb0(%x: tensor<8xf32>):
    %y = sdy.sharding_constraint %x <@mesh, [{"a"}]> : tensor<8xf32>
    "some.end"(%y) : (tensor<8xf32>) -> ()
  }) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
