#include "tests/bench/learning_curves.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <span>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/os/files.h"

namespace dtrain {
namespace {

using nlohmann::json;

[[noreturn]] void BadTask(const std::string& what) {
  throw Error(ErrorKind::kUsage, what);
}

std::string ReadText(const std::string& file) {
  if (auto text = ReadFile(file)) return *std::move(text);
  BadTask(file + ": cannot be read: " + std::strerror(errno));
}

// A curve whose errors are all known.
class KnownCurve final : public LearningCurve {
 public:
  KnownCurve(double seconds_per_step, std::vector<double> errors)
      : seconds_per_step_(seconds_per_step), errors_(std::move(errors)) {}

  double seconds_per_step() const override { return seconds_per_step_; }
  std::vector<double> Errors(int first, int last) const override {
    return {errors_.begin() + first, errors_.begin() + last};
  }

 private:
  double seconds_per_step_;
  std::vector<double> errors_;
};

// --- Closed forms

double Square(double x) { return x * x; }

// The networks of a made-up image task. A trial learns if its learning rate
// fits the optimizer; large networks learn more slowly and reach more.
class MixedTask final : public SearchTask {
 public:
  // `conditional`: hyperparameters that matter only for one optimizer are
  // absent with others.
  explicit MixedTask(bool conditional)
      : hyperparameters_(
            "{optimizer: {type: categorical, vals: [sgd, adam, rmsprop]},"
            " lr: {type: log, base: 10, minval: -5, maxval: 0},"
            " momentum: {type: double, minval: 0, maxval: 0.99" +
            std::string(conditional ? ", when: {optimizer: sgd}" : "") +
            "}, beta2: {type: double, minval: 0.9, maxval: 0.9999" +
            std::string(conditional ? ", when: {optimizer: adam}" : "") +
            "}, augment: {type: categorical, vals: [0, 1, 2, 3]},"
            " layers: {type: int, minval: 1, maxval: 8},"
            " width: {type: log, base: 2, minval: 4, maxval: 10},"
            " norm: {type: categorical, vals: [false, true]},"
            " weight_decay: {type: log, base: 10, minval: -6, maxval: -1}}") {}

  std::string_view hyperparameters() const override { return hyperparameters_; }
  int steps() const override { return 27; }
  double noise() const override { return 0.004; }
  int reference_trainings() const override { return 20'000; }
  std::unique_ptr<LearningCurve> Train(const json& hparams) const override;

 private:
  std::string hyperparameters_;
};

// log10 of the best learning rate. `momentum` matters only for sgd.
double BestRate(const std::string& optimizer, double momentum, bool norm) {
  const double rate = optimizer == "sgd"
                          ? -0.5 - 0.8 * std::log10(1 / (1 - momentum))
                      : optimizer == "adam" ? -2.8
                                            : -2.2;
  return rate + (norm ? 0.3 : -0.3);
}

// Error that the choices add. `beta2` matters only for adam.
double AddedError(const std::string& optimizer, double beta2, int augment,
                  bool norm) {
  constexpr std::array<double, 4> kAugment = {0.03, 0, 0.015, 0.05};
  const double chosen = optimizer == "sgd"    ? 0.02
                        : optimizer == "adam" ? 9 * Square(beta2 - 0.99)
                                              : 0.035;
  return chosen + kAugment.at(static_cast<std::size_t>(augment)) +
         (norm ? 0 : 0.02);
}

std::unique_ptr<LearningCurve> MixedTask::Train(const json& hparams) const {
  const std::string optimizer = hparams.at("optimizer");
  const bool norm = hparams.at("norm");
  const int augment = hparams.at("augment");
  const int layers = hparams.at("layers");
  const double width = std::round(hparams.at("width").get<double>());
  const double distance =
      std::log10(hparams.at("lr").get<double>()) -
      BestRate(optimizer, hparams.value("momentum", 0.0), norm);
  if (distance > 1.3) {  // diverges
    return std::make_unique<KnownCurve>(
        1, std::vector<double>(static_cast<std::size_t>(steps()), 0.9));
  }
  const double size = (std::log2(width) - 4) / 6;
  const double decay = std::log10(hparams.at("weight_decay").get<double>());
  const double limit =
      0.06 +
      AddedError(optimizer, hparams.value("beta2", 0.99), augment, norm) +
      0.05 * std::min(4.0, Square(distance)) + 0.06 * Square(size - 0.7) +
      0.012 * std::pow(std::abs(layers - 4 - (norm ? 1 : -1)), 1.2) +
      0.01 * Square(decay + 3.3 - 0.5 * size);
  const double time = (1 + 1.5 * size) * (augment % 2 == 1 ? 1.3 : 1) *
                      std::pow(10, 0.4 * std::max(0.0, -distance));
  std::vector<double> errors;
  for (int step = 1; step <= steps(); ++step) {
    const double left = std::pow(1 + step / time, -1.2);
    errors.push_back(std::min(0.9, limit + (0.9 - limit) * left));
  }
  return std::make_unique<KnownCurve>(0.3 + Square(size) + 0.1 * layers,
                                      std::move(errors));
}

// Hartmann's function of 6 dimensions (Dixon and Szegö, "Towards Global
// Optimization 2", 1978), whose terms have other weights early in a training.
class NoisyTask final : public SearchTask {
 public:
  std::string_view hyperparameters() const override {
    return "{x0: {type: double, minval: 0, maxval: 1},"
           " x1: {type: double, minval: 0, maxval: 1},"
           " x2: {type: double, minval: 0, maxval: 1},"
           " x3: {type: double, minval: 0, maxval: 1},"
           " x4: {type: double, minval: 0, maxval: 1},"
           " x5: {type: double, minval: 0, maxval: 1}}";
  }
  int steps() const override { return 27; }
  double noise() const override { return 0.05; }
  int reference_trainings() const override { return 20'000; }
  std::unique_ptr<LearningCurve> Train(const json& hparams) const override;
};

using Six = std::array<double, 6>;

// The four terms of Hartmann's function at a point.
std::array<double, 4> HartmannTerms(const Six& x) {
  constexpr std::array<Six, 4> kScales = {{{10, 3, 17, 3.5, 1.7, 8},
                                           {0.05, 10, 17, 0.1, 8, 14},
                                           {3, 3.5, 1.7, 10, 17, 8},
                                           {17, 8, 0.05, 10, 0.1, 14}}};
  constexpr std::array<Six, 4> kCentres = {
      {{0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886},
       {0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991},
       {0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650},
       {0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381}}};
  std::array<double, 4> terms{};
  for (std::size_t i = 0; i < terms.size(); ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < x.size(); ++j) {
      sum += kScales[i][j] * Square(x[j] - kCentres[i][j]);
    }
    terms[i] = std::exp(-sum);
  }
  return terms;
}

std::unique_ptr<LearningCurve> NoisyTask::Train(const json& hparams) const {
  constexpr std::array<double, 4> kWeights = {1, 1.2, 3, 3.2};
  constexpr std::array<double, 4> kMisleading = {0.9, -0.6, 0.75, -0.45};
  Six x{};
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = hparams.at("x" + std::to_string(i));
  }
  const std::array<double, 4> terms = HartmannTerms(x);
  std::vector<double> errors;
  for (int step = 1; step <= steps(); ++step) {
    const double rest = 1 - static_cast<double>(step) / steps();
    double error = 3.4 + 1.5 * Square(rest);
    for (std::size_t i = 0; i < terms.size(); ++i) {
      error -= (kWeights[i] - kMisleading[i] * rest) * terms[i];
    }
    errors.push_back(error);
  }
  return std::make_unique<KnownCurve>(1 + x[2], std::move(errors));
}

// --- LCBench

constexpr int kEpochs = 50;
constexpr std::string_view kLcbenchSpace =
    "{batch_size: {type: log, base: 2, minval: 4, maxval: 9},"
    " learning_rate: {type: log, base: 10, minval: -4, maxval: -1},"
    " momentum: {type: double, minval: 0.1, maxval: 0.99},"
    " weight_decay: {type: double, minval: 0.00001, maxval: 0.1},"
    " num_layers: {type: int, minval: 1, maxval: 5},"
    " max_units: {type: log, base: 2, minval: 6, maxval: 10},"
    " max_dropout: {type: double, minval: 0, maxval: 1}}";
constexpr std::size_t kLcbenchSize = 7;
using LcbenchPoint = std::array<double, kLcbenchSize>;
constexpr std::array<const char*, kLcbenchSize> kLcbenchNames = {
    "batch_size", "learning_rate", "momentum",   "weight_decay",
    "num_layers", "max_units",     "max_dropout"};

// Batch size and units are integers of a logarithmic range.
LcbenchPoint ToLcbenchPoint(const json& hparams) {
  LcbenchPoint point{};
  for (std::size_t i = 0; i < point.size(); ++i) {
    point[i] = hparams.at(kLcbenchNames[i]);
  }
  point[0] = std::round(point[0]);
  point[5] = std::round(point[5]);
  return point;
}

class LcbenchTable final : public SearchTask {
 public:
  explicit LcbenchTable(const std::string& file);

  std::string_view hyperparameters() const override { return kLcbenchSpace; }
  int steps() const override { return kEpochs; }
  std::vector<std::unique_ptr<LearningCurve>> Table() const override;
  std::unique_ptr<LearningCurve> Train(const json& hparams) const override;

 private:
  struct TableRow {
    LcbenchPoint place{};  // scaled to [0, 1]
    double seconds_per_step = 0;
    std::vector<double> errors;
  };

  static LcbenchPoint Scale(const LcbenchPoint& point);
  std::unique_ptr<LearningCurve> MakeCurve(const TableRow& row) const {
    return std::make_unique<KnownCurve>(row.seconds_per_step, row.errors);
  }

  std::vector<TableRow> rows_;
};

LcbenchPoint LcbenchTable::Scale(const LcbenchPoint& point) {
  constexpr LcbenchPoint kMin = {16, 1e-4, 0.1, 1e-5, 1, 64, 0};
  constexpr LcbenchPoint kMax = {512, 1e-1, 0.99, 0.1, 5, 1024, 1};
  constexpr std::array<bool, kLcbenchSize> kLog = {true,  true, false, false,
                                                   false, true, false};
  LcbenchPoint scaled{};
  for (std::size_t i = 0; i < point.size(); ++i) {
    scaled[i] = kLog[i]
                    ? std::log(point[i] / kMin[i]) / std::log(kMax[i] / kMin[i])
                    : (point[i] - kMin[i]) / (kMax[i] - kMin[i]);
  }
  return scaled;
}

LcbenchTable::LcbenchTable(const std::string& file) {
  std::istringstream text(ReadText(file));
  std::string line;
  std::getline(text, line);  // the names of the columns
  for (int number = 2; std::getline(text, line); ++number) {
    if (line.ends_with('\r')) line.pop_back();
    std::vector<double> cells;
    for (const std::string& cell : Split(line, ',')) {
      char* end = nullptr;
      cells.push_back(std::strtod(cell.c_str(), &end));
      if (cell.empty() || *end != '\0') cells.clear();
    }
    // id, hyperparameters, seconds of all epochs, accuracies
    if (cells.size() != 2 + kLcbenchSize + kEpochs) {
      BadTask(file + ":" + std::to_string(number) + ": expected " +
              std::to_string(2 + kLcbenchSize + kEpochs) +
              " numbers separated by commas");
    }
    TableRow row;
    LcbenchPoint point{};
    std::copy_n(cells.begin() + 1, point.size(), point.begin());
    row.place = Scale(point);
    row.seconds_per_step = cells[1 + kLcbenchSize] / kEpochs;
    for (std::size_t i = 2 + kLcbenchSize; i < cells.size(); ++i) {
      row.errors.push_back(1 - cells[i] / 100);
    }
    rows_.push_back(std::move(row));
  }
  if (rows_.empty()) BadTask(file + ": has no rows");
}

std::vector<std::unique_ptr<LearningCurve>> LcbenchTable::Table() const {
  std::vector<std::unique_ptr<LearningCurve>> curves;
  for (const TableRow& row : rows_) curves.push_back(MakeCurve(row));
  return curves;
}

std::unique_ptr<LearningCurve> LcbenchTable::Train(const json& hparams) const {
  const LcbenchPoint place = Scale(ToLcbenchPoint(hparams));
  const auto distance = [&](const TableRow& row) {
    double sum = 0;
    for (std::size_t i = 0; i < place.size(); ++i) {
      sum += Square(place[i] - row.place[i]);
    }
    return sum;
  };
  return MakeCurve(*std::ranges::min_element(rows_, {}, distance));
}

// --- The surrogate network

using Vector = std::vector<float>;

// Tensors of float32 by name, with the sizes that the network needs.
class NetworkFile {
 public:
  explicit NetworkFile(const std::string& file)
      : file_(file), text_(ReadText(file)) {
    const auto bytes = std::as_bytes(std::span(text_));
    for (TensorBytes& tensor : ReadSafetensors(bytes, file)) {
      tensors_[tensor.name] = std::move(tensor);
    }
    // ReadSafetensors checked the header; it does not return the metadata.
    std::uint64_t length = 0;
    std::memcpy(&length, text_.data(), sizeof length);
    metadata_ = json::parse(text_.substr(sizeof length, length))
                    .value("__metadata__", json::object());
  }

  // Returns a tensor of `size` numbers.
  Vector Tensor(const std::string& name, std::size_t size) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) BadTask(file_ + ": has no tensor " + name);
    const TensorBytes& tensor = found->second;
    if (tensor.dtype != "F32" || tensor.bytes.size() != size * sizeof(float)) {
      BadTask(file_ + ": " + name + " is not float32 of " +
              std::to_string(size) + " numbers");
    }
    Vector values(size);
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    return values;
  }

  // Returns the text of a key of the metadata.
  std::string Metadata(const char* key) const {
    const auto found = metadata_.find(key);
    if (found == metadata_.end() || !found->is_string()) {
      BadTask(file_ + ": has no metadata '" + key + "'");
    }
    return *found;
  }

 private:
  std::string file_;
  std::string text_;
  std::map<std::string, TensorBytes> tensors_;
  json metadata_;
};

// A batch normalization with its statistics: y = scale · x + shift.
struct Normalization {
  Vector scale;
  Vector shift;

  Normalization(const NetworkFile& file, const std::string& prefix,
                std::size_t size)
      : scale(file.Tensor(prefix + ".weight", size)),
        shift(file.Tensor(prefix + ".bias", size)) {
    const Vector mean = file.Tensor(prefix + ".running_mean", size);
    const Vector variance = file.Tensor(prefix + ".running_var", size);
    for (std::size_t i = 0; i < size; ++i) {
      scale[i] /= std::sqrt(variance[i] + 1e-5F);
      shift[i] -= scale[i] * mean[i];
    }
  }

  Vector operator()(Vector x) const {
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = scale[i] * x[i] + shift[i];
    return x;
  }
};

// A linear layer. Weights are stored in blocks of outputs, [block][input][16],
// so that compilers vectorize the sums.
class Linear {
 public:
  Linear(const NetworkFile& file, const std::string& prefix, std::size_t inputs,
         std::size_t outputs)
      : inputs_(inputs),
        outputs_(outputs),
        bias_(file.Tensor(prefix + ".bias", outputs)) {
    const Vector rows = file.Tensor(prefix + ".weight", outputs * inputs);
    const std::size_t blocks = (outputs + kBlock - 1) / kBlock;
    bias_.resize(blocks * kBlock);
    weights_.resize(blocks * inputs * kBlock);
    for (std::size_t o = 0; o < outputs; ++o) {
      for (std::size_t i = 0; i < inputs; ++i) {
        weights_[(o / kBlock * inputs + i) * kBlock + o % kBlock] =
            rows[o * inputs + i];
      }
    }
  }

  Vector operator()(const Vector& x) const {
    Vector y = bias_;
    const float* weights = weights_.data();
    for (std::size_t start = 0; start < y.size(); start += kBlock) {
      std::array<float, kBlock> sums{};
      for (std::size_t i = 0; i < inputs_; ++i, weights += kBlock) {
        for (std::size_t o = 0; o < kBlock; ++o) sums[o] += weights[o] * x[i];
      }
      for (std::size_t o = 0; o < kBlock; ++o) y[start + o] += sums[o];
    }
    y.resize(outputs_);
    return y;
  }

 private:
  static constexpr std::size_t kBlock = 16;
  std::size_t inputs_;
  std::size_t outputs_;
  Vector bias_;
  Vector weights_;
};

Vector Rectify(Vector x) {
  for (float& value : x) value = std::max(value, 0.0F);
  return x;
}

constexpr std::size_t kHidden = 128;
constexpr std::size_t kGated = 455;
constexpr std::size_t kEmbedding = 24;
constexpr std::size_t kInputs = 1 + kLcbenchSize;  // the epoch comes first
constexpr std::size_t kOutputs = 6;

// h += linear1(a · relu(b)) with (a, b) the halves of linear0(BN(h)).
struct GatedLayer {
  Normalization norm;
  Linear linear0;
  Linear linear1;

  GatedLayer(const NetworkFile& file, const std::string& prefix)
      : norm(file, prefix + ".norm", kHidden),
        linear0(file, prefix + ".linear0", kHidden, 2 * kGated),
        linear1(file, prefix + ".linear1", kGated, kHidden) {}

  void AddTo(Vector& h) const {
    const Vector both = linear0(norm(h));
    Vector gated(kGated);
    for (std::size_t i = 0; i < kGated; ++i) {
      gated[i] = both[i] * std::max(both[kGated + i], 0.0F);
    }
    const Vector added = linear1(gated);
    for (std::size_t i = 0; i < kHidden; ++i) h[i] += added[i];
  }
};

class LcbenchNetwork final : public SearchTask {
 public:
  LcbenchNetwork(const std::string& file, const std::string& task)
      : LcbenchNetwork(NetworkFile(file), file, task) {}

  std::string_view hyperparameters() const override { return kLcbenchSpace; }
  int steps() const override { return kEpochs; }
  int reference_trainings() const override { return 3'000; }
  std::unique_ptr<LearningCurve> Train(const json& hparams) const override;

  double Error(const LcbenchPoint& point, int epoch) const {
    return std::clamp(1 - Output(point, epoch, 1) / 100, 0.0, 1.0);
  }

 private:
  LcbenchNetwork(const NetworkFile& file, const std::string& name,
                 const std::string& task);

  // Returns seconds so far (0) or the accuracy in percent (1).
  double Output(const LcbenchPoint& point, int epoch, std::size_t which) const;
  Vector Input(const LcbenchPoint& point, int epoch) const;

  Vector embedding_;
  json inputs_;
  json outputs_;
  Linear first_;
  std::vector<GatedLayer> layers_;
  Normalization last_;
  Linear head_;
};

class LcbenchCurve final : public LearningCurve {
 public:
  LcbenchCurve(const LcbenchNetwork& network, const LcbenchPoint& point,
               double seconds_per_step)
      : network_(network), point_(point), seconds_per_step_(seconds_per_step) {}

  double seconds_per_step() const override { return seconds_per_step_; }
  std::vector<double> Errors(int first, int last) const override {
    std::vector<double> errors;
    for (int epoch = first + 1; epoch <= last; ++epoch) {
      errors.push_back(network_.Error(point_, epoch));
    }
    return errors;
  }

 private:
  const LcbenchNetwork& network_;
  LcbenchPoint point_;
  double seconds_per_step_;
};

LcbenchNetwork::LcbenchNetwork(const NetworkFile& file, const std::string& name,
                               const std::string& task)
    : first_(file, "first_layer", kEmbedding + kInputs, kHidden),
      last_(file, "last_normalization", kHidden),
      head_(file, "head", kHidden, kOutputs) {
  const std::vector<std::string> tasks = Split(file.Metadata("tasks"), ',');
  const auto found = std::ranges::find(tasks, task);
  if (found == tasks.end()) {
    BadTask(name + ": has no task '" + task +
            "'; available: " + Join(tasks, ", "));
  }
  const Vector all = file.Tensor("task_embedding", tasks.size() * kEmbedding);
  const auto row = (found - tasks.begin()) * std::ptrdiff_t{kEmbedding};
  embedding_.assign(all.begin() + row, all.begin() + row + kEmbedding);
  inputs_ = json::parse(file.Metadata("inputs"));
  outputs_ = json::parse(file.Metadata("outputs"));
  for (int i = 0; i < 3; ++i) {
    layers_.emplace_back(file, "layers." + std::to_string(i));
  }
}

Vector LcbenchNetwork::Input(const LcbenchPoint& point, int epoch) const {
  Vector input = embedding_;
  for (const json& scaling : inputs_) {
    const std::size_t column = scaling.at("column");
    double value = column == 0 ? epoch : point.at(column - 1);
    if (scaling.at("log")) {
      value = std::log(value + scaling.at("add").get<double>());
    }
    const double offset = scaling.at("sub");
    const double divisor = scaling.at("div");
    input.push_back(static_cast<float>((value - offset) / divisor));
  }
  return input;
}

double LcbenchNetwork::Output(const LcbenchPoint& point, int epoch,
                              std::size_t which) const {
  Vector h = first_(Input(point, epoch));
  for (const GatedLayer& layer : layers_) layer.AddTo(h);
  const Vector head = head_(Rectify(last_(std::move(h))));
  const json& scaling = outputs_.at(which);
  const double unit = head.at(scaling.at("unit").get<std::size_t>());
  const double value =
      1 / (1 + std::exp(-unit)) * scaling.at("mul").get<double>() +
      scaling.at("add").get<double>();
  return scaling.at("exp") ? std::exp(value) - scaling.at("sub").get<double>()
                           : value;
}

std::unique_ptr<LearningCurve> LcbenchNetwork::Train(
    const json& hparams) const {
  const LcbenchPoint point = ToLcbenchPoint(hparams);
  const double seconds = std::max(0.02, Output(point, kEpochs, 0) / kEpochs);
  return std::make_unique<LcbenchCurve>(*this, point, seconds);
}

// Evaluates the network once, so that invalid metadata are found now.
std::unique_ptr<SearchTask> OpenNetwork(const std::string& file,
                                        const std::string& task) {
  try {
    auto network = std::make_unique<LcbenchNetwork>(file, task);
    network->Error({16, 1e-3, 0.9, 1e-4, 2, 64, 0.5}, /*epoch=*/1);
    return network;
  } catch (const json::exception& error) {
    BadTask(file + ": invalid metadata: " + error.what());
  } catch (const std::out_of_range&) {
    BadTask(file + ": invalid metadata: a column or unit that does not exist");
  }
}

}  // namespace

std::unique_ptr<SearchTask> OpenSearchTask(const std::string& name) {
  const std::string kind = name.substr(0, name.find(':'));
  const std::string file =
      kind.size() < name.size() ? name.substr(kind.size() + 1) : "";
  if (name == "mixed" || name == "mixed_conditional") {
    return std::make_unique<MixedTask>(name == "mixed_conditional");
  }
  if (name == "noisy") return std::make_unique<NoisyTask>();
  if (kind == "table" && !file.empty()) {
    return std::make_unique<LcbenchTable>(file);
  }
  const std::size_t colon = file.rfind(':');
  if (kind == "lcbench" && colon != std::string::npos) {
    return OpenNetwork(file.substr(0, colon), file.substr(colon + 1));
  }
  BadTask("unknown task '" + name +
          "'; available: mixed, mixed_conditional, noisy, table:FILE, "
          "lcbench:FILE:TASK");
}

}  // namespace dtrain
