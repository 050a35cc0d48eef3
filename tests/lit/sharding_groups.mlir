// RUN: shardwright-opt %s -split-input-file -sdy-sharding-group-import 2>&1 | FileCheck %s

// Ids that share a value are one group, and count from 0.
// CHECK-LABEL: func @groups
func.func @groups(%arg0: tensor<8xf32>, %arg1: tensor<8xf32>, %arg2: tensor<8xf32>) {
  // CHECK-NEXT: sdy.sharding_group %arg0 group_id=0 : tensor<8xf32>
  // CHECK-NEXT: sdy.sharding_group %arg1 group_id=0 : tensor<8xf32>
  // CHECK-NEXT: sdy.sharding_group %arg2 group_id=1 : tensor<8xf32>
  // CHECK-NEXT: return
  sdy.sharding_group %arg0 group_id=32 : tensor<8xf32>
  sdy.sharding_group %arg1 group_id=1000 : tensor<8xf32>
  sdy.sharding_group %arg1 group_id=32 : tensor<8xf32>
  sdy.sharding_group %arg2 group_id=7 : tensor<8xf32>
  return
}

// -----

// CHECK: // -----
// CHECK-LABEL: func @alone
func.func @alone(%arg0: tensor<8xf32>) {
  // CHECK-NEXT: sdy.sharding_group %arg0 group_id=0 : tensor<8xf32>
  sdy.sharding_group %arg0 group_id=5 : tensor<8xf32>
  return
}
