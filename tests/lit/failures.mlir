// RUN: not shardwright-opt %s -split-input-file 2>&1 | FileCheck %s
// RUN: not shardwright-opt %s -split-input-file -verify-diagnostics 2>&1 | FileCheck %s --check-prefix=UNEXPECTED
// RUN: not shardwright-opt %s --pass-pipeline='builtin.module(cse,foo)' 2>&1 | FileCheck %s --check-prefix=PIPELINE
// RUN: not shardwright-opt %s -csee 2>&1 | FileCheck %s --check-prefix=FLAG
// RUN: not shardwright-opt %s -cse=foo=1 2>&1 | FileCheck %s --check-prefix=OPTION
// RUN: not shardwright-opt nowhere.mlir 2>&1 | FileCheck %s --check-prefix=FILE

// PIPELINE: MLIR Textual PassPipeline Parser:1:20: error: 'foo' does not refer to a registered pass or pass pipeline
// PIPELINE-NEXT: builtin.module(cse,foo)
// PIPELINE-NEXT: {{^ +\^$}}
// FLAG: unknown command line argument '-csee'
// FLAG-NEXT: did you mean -cse?
// OPTION: no such option foo
// FILE: cannot open input file 'nowhere.mlir': No such file or directory

func.func @good(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  return %arg0 : tensor<8xf32>
}

// -----

func.func @bad(%arg0: tensor<8xf32>) -> tensor<8xf32> {
// CHECK: failures.mlir:[[# @LINE + 3]]:10: error: use of undeclared SSA value name
// CHECK-NEXT: {{^}} return %nowhere : tensor<8xf32>
// UNEXPECTED: failures.mlir:[[# @LINE + 1]]:10: error: unexpected error: use of undeclared SSA value name
  return %nowhere : tensor<8xf32>
}
// CHECK-NOT: func.func
// UNEXPECTED-NOT: error
