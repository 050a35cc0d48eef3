// RUN: shardwright-opt %s --inline='max-iterations=2' --symbol-dce -cse | FileCheck %s
// RUN: shardwright-opt %s -canonicalize='max-iterations=3 top-down=false' -canonicalize -dump-pass-pipeline 2>&1 >/dev/null | FileCheck %s --check-prefix=PIPELINE
// RUN: shardwright-opt %s --pass-pipeline="builtin.module(func.func(cse, canonicalize), symbol-dce)" -mlir-print-ir-after-all \
// RUN:   -mlir-print-ir-module-scope -mlir-disable-threading 2>&1 | FileCheck %s --check-prefix=DUMP

// PIPELINE: Pass Manager with 2 passes:
// PIPELINE-NEXT: builtin.module(canonicalize{{{.*}}max-iterations=3{{.*}}top-down=false},canonicalize{{{.*}}max-iterations=10{{.*}}})

// DUMP: IR Dump After CSEPass (cse)
// DUMP: IR Dump After CanonicalizerPass (canonicalize)
// DUMP: IR Dump After SymbolDCEPass (symbol-dce) ('builtin.module' operation) //----- //
// DUMP-NEXT: module {

// CHECK-LABEL: func @main
func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NEXT: %[[TWICE:.*]] = stablehlo.add %arg0, %arg0
  // CHECK-NEXT: %[[OUT:.*]] = stablehlo.multiply %[[TWICE]], %[[TWICE]]
  // CHECK-NEXT: return %[[OUT]]
  %0 = func.call @twice(%arg0) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = func.call @twice(%arg0) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<8xf32>
  return %2 : tensor<8xf32>
}

// CHECK-NOT: @twice
func.func private @twice(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.add %arg0, %arg0 : tensor<8xf32>
  return %0 : tensor<8xf32>
}
