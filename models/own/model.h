#pragma once

/// Everything that a model_def.cpp needs: `#include <dtrain/model.h>`. A model
/// is a class derived from dtrain::Trial, with a constructor and four
/// functions:
///
///   MyTrial(TrialContext&)   creates network and optimizer and adds them to
///   the
///                            context, which also provides the hyperparameters
///   TrainingData()           the batches to train on
///   ValidationData()         the batches to validate on
///   TrainBatch(batch, i)     forward, context.Backward, context.Step; metrics
///   EvaluateBatch(batch)     forward; metrics
///
/// and DTRAIN_TRIALS(MyTrial) at the end, which registers it as `entrypoint:
/// model_def:MyTrial`. `dtrain init DIR` creates a template.

#include <ATen/CPUGeneratorImpl.h>
#include <dtrain/abi.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/optim.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "engine/base/error.h"
#include "engine/data/batch_sampler.h"
#include "engine/data/data_directory.h"
#include "engine/data/dataset_readers.h"
#include "engine/data/image_source.h"
#include "engine/data/memory_source.h"
#include "engine/data/seeds.h"
#include "engine/data/tensor_source.h"
#include "engine/data/thread_loader.h"
#include "engine/image/cached_images.h"
#include "engine/image/image_folder.h"
#include "engine/train/fused_optimizers.h"
#include "engine/train/log_line.h"
#include "engine/train/torch_modules.h"
#include "engine/train/trial.h"
#include "models/building_blocks.h"
#include "models/nets/image_classifier.h"
#include "models/ops/conv_relu_pool.h"
#include "models/optimizers.h"
