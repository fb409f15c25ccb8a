#pragma once

#include <cstdint>
#include <vector>

#include "engine/kernels/conv.h"

namespace dtrain {

/// The tensors of a layer and of its gradients, by what `Number` they are.
template <typename Number>
struct ConvTensors {
  std::vector<Number> input;
  std::vector<Number> weight;
  std::vector<Number> bias;
  std::vector<Number> output;
  std::vector<Number> grad_output;
  std::vector<Number> grad_input;
  std::vector<Number> grad_weight;
  std::vector<Number> grad_bias;
};

/// Distribution of the values of a case.
enum class Draw {
  /// Small multiples of 1/8, such that sums in float32 are exact and windows
  /// have ties.
  kGrid,
  kReal,
  /// From 0 to 1: sums lose nothing by what cancels out.
  kPositive,
};

/// Input, weight, bias and grad_output of `images` images; the rest is zeros,
/// the gradients by weight and bias ones, since they are added to.
ConvTensors<float> DrawTensors(const ConvShape& shape, std::int64_t images,
                               Draw draw, unsigned seed);

/// Computes the layer by plain loops in double precision, from the first four.
ConvTensors<double> ReferenceConv(const ConvShape& shape, std::int64_t images,
                                  const ConvTensors<float>& tensors);

/// Fills in the rest of the tensors, by `kernels`.
void RunConv(const ConvShape& shape, std::int64_t images,
             const ConvKernels& kernels, ConvTensors<float>& tensors);

/// The largest difference of two tensors, relative to the largest value; NaN
/// equals NaN alone.
double Difference(const std::vector<float>& values,
                  const std::vector<double>& expected);

/// The largest of those of output and gradients.
double Difference(const ConvTensors<float>& values,
                  const ConvTensors<double>& expected);

/// Converts the tensors to doubles.
ConvTensors<double> Widened(const ConvTensors<float>& tensors);

}  // namespace dtrain
