#include "models/nets/dense_classifier.h"

#include <cstddef>

namespace dtrain {

namespace nn = torch::nn;

nn::ReLU InPlaceRelu() { return nn::ReLU(nn::ReLUOptions(/*inplace=*/true)); }

torch::Tensor ForwardBeforeLast(nn::SequentialImpl& layers, torch::Tensor x) {
  auto layer = layers.begin();
  for (std::size_t i = 0; i + 1 < layers.size(); ++i, ++layer) {
    x = layer->forward(x);
  }
  return x;
}

torch::Tensor ForwardLast(nn::SequentialImpl& layers, const torch::Tensor& x) {
  return layers.at<nn::LinearImpl>(layers.size() - 1).forward(x);
}

}  // namespace dtrain
