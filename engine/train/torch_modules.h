#pragma once

/// The layers, losses and initialisers of LibTorch that most models need.
/// Including all of <torch/nn.h> costs about four seconds more per file,
/// precompiled or not, because GCC instantiates its templates in every file. A
/// model that needs another layer, such as an LSTM, includes that header beside
/// this one.

#include <torch/nn/functional/activation.h>
#include <torch/nn/functional/conv.h>
#include <torch/nn/functional/dropout.h>
#include <torch/nn/functional/linear.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/functional/pooling.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>
