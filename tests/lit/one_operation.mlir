// RUN: shardwright-opt %s -no-implicit-module -cse -mlir-print-debuginfo -mlir-print-local-scope | FileCheck %s
// RUN: shardwright-opt %s -verify-roundtrip -mlir-print-debuginfo -mlir-pretty-debuginfo | FileCheck %s --check-prefix=PRETTY
// RUN: shardwright-opt %s -emit-bytecode | shardwright-opt | FileCheck %s --check-prefix=AGAIN

// CHECK-NOT: module
// CHECK: func.func @main(
// PRETTY: module {
// AGAIN: module {
// AGAIN-NEXT: func.func @main
func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: stablehlo.add {{.*}} loc("{{.*}}one_operation.mlir":[[# @LINE + 2]]:8)
  // PRETTY: stablehlo.add {{.*}}one_operation.mlir:[[# @LINE + 1]]:8
  %0 = stablehlo.add %arg0, %arg0 : tensor<8xf32>
  return %0 : tensor<8xf32>
}
