// A double with a step is computed in binary and rounded to the number of
// decimals that the shorter of the YAML's numbers need, which removes the error
// of binary fractions: minval 0 and step 0.1 give 0.3.
//
// Samples of a normal distribution are quantiles of uniform numbers, so that a
// sample takes one of them, as every range does, and truncation rejects none.
// Near the upper end a quantile is computed from the probability above it,
// which is the exact one there.

#include "searchers/number_range.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

#include "searchers/portable_math.h"

namespace dtrain {
namespace {

// Half a millionth of a step is not a reason to leave out the last value.
constexpr double kTolerance = 5e-7;

// Long enough for the smallest double without an exponent.
using DigitBuffer = std::array<char, 1100>;

// Returns the number of decimals of the shortest text of the number.
int CountDecimals(double number) {
  DigitBuffer text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number,
                                 std::chars_format::fixed)
                       .ptr;
  const std::string_view digits(text.data(),
                                static_cast<std::size_t>(end - text.data()));
  const std::size_t point = digits.find('.');
  return point == digits.npos ? 0 : static_cast<int>(digits.size() - point - 1);
}

double RoundToDecimals(double number, int decimals) {
  DigitBuffer text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number,
                                 std::chars_format::fixed, decimals)
                       .ptr;
  double rounded = number;
  std::from_chars(text.data(), end, rounded);
  return rounded == 0 ? 0 : rounded;  // not -0
}

// The first coefficient is that of the highest power.
double EvaluatePolynomial(const std::array<double, 8>& coefficients, double x) {
  double sum = 0;
  for (const double coefficient : coefficients) sum = sum * x + coefficient;
  return sum;
}

}  // namespace

double AddSteps(double low, double steps, double step) {
  return RoundToDecimals(low + steps * step,
                         std::max(CountDecimals(low), CountDecimals(step)));
}

SteppedRange::SteppedRange(const nlohmann::json& range)
    : whole_(range.at("type") == "int") {
  if (whole_) {
    first_ = range.at("minval");
    width_ = range.value("step", std::int64_t{1});
    const auto span =
        static_cast<std::uint64_t>(range.at("maxval").get<std::int64_t>()) -
        static_cast<std::uint64_t>(first_);
    last_ = span / static_cast<std::uint64_t>(width_);
    return;
  }
  low_ = range.at("minval");
  step_ = range.at("step");
  const double high = range.at("maxval");
  const double steps = (high - low_) / step_;
  last_ =
      static_cast<std::uint64_t>(steps + std::max(kTolerance, steps * 1e-15));
  while (last_ > 0 && NumberAt(last_) > high) --last_;
}

double SteppedRange::NumberAt(std::uint64_t index) const {
  return AddSteps(low_, static_cast<double>(index), step_);
}

nlohmann::json SteppedRange::At(std::uint64_t index) const {
  if (!whole_) return NumberAt(index);
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(first_) +
                                   index * static_cast<std::uint64_t>(width_));
}

std::optional<std::uint64_t> SteppedRange::Find(
    const nlohmann::json& value) const {
  if (whole_) {
    if (!value.is_number_integer() || value < first_) return std::nullopt;
    const auto distance =
        static_cast<std::uint64_t>(value.get<std::int64_t>()) -
        static_cast<std::uint64_t>(first_);
    const std::uint64_t index = distance / static_cast<std::uint64_t>(width_);
    const bool exact = index * static_cast<std::uint64_t>(width_) == distance;
    return exact && index <= last_ ? std::optional(index) : std::nullopt;
  }
  if (!value.is_number()) return std::nullopt;
  const double index = std::floor((value.get<double>() - low_) / step_ + 0.5);
  if (!(index >= 0 && index <= static_cast<double>(last_))) return std::nullopt;
  const auto found = static_cast<std::uint64_t>(index);
  const double error = std::abs(NumberAt(found) - value.get<double>());
  return error <= kTolerance * step_ ? std::optional(found) : std::nullopt;
}

LogInteger::LogInteger(const nlohmann::json& range)
    : low_(range.at("minval")),
      high_(range.at("maxval")),
      from_(PortableLog(static_cast<double>(low_) - 0.5)),
      to_(PortableLog(static_cast<double>(high_) + 0.5)) {}

std::int64_t LogInteger::At(double place) const {
  const double number = PortableExp(from_ + place * (to_ - from_));
  return std::clamp(static_cast<std::int64_t>(std::floor(number + 0.5)), low_,
                    high_);
}

double LogInteger::Place(std::int64_t value) const {
  return (PortableLog(static_cast<double>(value)) - from_) / (to_ - from_);
}

NormalRange::NormalRange(const nlohmann::json& range)
    : log_(range.value("log", false)),
      mean_(range.at("mean")),
      std_(range.at("std")) {
  const auto bound = [&](const char* name, std::optional<double>& value) {
    const auto found = range.find(name);
    if (found == range.end()) return 0.0;
    value = found->get<double>();
    return ((log_ ? PortableLog(*value) : *value) - mean_) / std_;
  };
  const double from = bound("minval", low_);
  const double to = bound("maxval", high_);
  if (low_) below_ = NormalProbability(from);
  if (high_) above_ = NormalProbability(-to);
  // The difference of the smaller probabilities has the smaller error.
  if (low_ && from > 0) {
    mass_ = NormalProbability(-from) - above_;
  } else if (high_ && to < 0) {
    mass_ = NormalProbability(to) - below_;
  } else {
    mass_ = 1 - below_ - above_;
  }
}

double NormalRange::At(double share) const {
  share = std::clamp(share, 0x1p-53, 1 - 0x1p-53);
  const double lower = below_ + share * mass_;
  const double upper = above_ + (1 - share) * mass_;
  const double place =
      lower < upper ? LowerNormalQuantile(lower) : -LowerNormalQuantile(upper);
  double value = mean_ + std_ * place;
  if (log_) value = PortableExp(value);
  if (low_) value = std::max(value, *low_);
  if (high_) value = std::min(value, *high_);
  return value;
}

bool NormalRange::IsRepresentable() const {
  const double least = At(0);
  const double most = At(1);
  // PortableExp ends at e^±708.
  return std::isfinite(least) && std::isfinite(most) &&
         (!log_ || (least > 1e-300 && most < 1e300));
}

double NormalRange::Place(double value) const {
  const double place = ((log_ ? PortableLog(value) : value) - mean_) / std_;
  const double share = place < 0
                           ? (NormalProbability(place) - below_) / mass_
                           : 1 - (NormalProbability(-place) - above_) / mass_;
  return std::clamp(share, 0.0, 1.0);
}

double LowerNormalQuantile(double p) {
  const double q = p - 0.5;
  if (q >= -0.425) {
    constexpr std::array a = {2509.0809287301226727, 33430.575583588128105,
                              67265.770927008700853, 45921.953931549871457,
                              13731.693765509461125, 1971.5909503065514427,
                              133.14166789178437745, 3.387132872796366608};
    constexpr std::array b = {5226.495278852545925,  28729.085735721942674,
                              39307.89580009271061,  21213.794301586595867,
                              5394.1960214247511077, 687.1870074920579083,
                              42.313330701600911252, 1.0};
    const double r = 0.180625 - q * q;
    return q * EvaluatePolynomial(a, r) / EvaluatePolynomial(b, r);
  }
  const double r = std::sqrt(-PortableLog(p));
  if (r <= 5) {
    constexpr std::array c = {
        7.7454501427834140764e-4, 0.0227238449892691845833,
        0.24178072517745061177,   1.27045825245236838258,
        3.64784832476320460504,   5.7694972214606914055,
        4.6303378461565452959,    1.42343711074968357734};
    constexpr std::array d = {
        1.05075007164441684324e-9, 5.475938084995344946e-4,
        0.0151986665636164571966,  0.14810397642748007459,
        0.68976733498510000455,    1.6763848301838038494,
        2.05319162663775882187,    1.0};
    return -EvaluatePolynomial(c, r - 1.6) / EvaluatePolynomial(d, r - 1.6);
  }
  constexpr std::array e = {
      2.01033439929228813265e-7, 2.71155556874348757815e-5,
      0.0012426609473880784386,  0.026532189526576123093,
      0.29656057182850489123,    1.7848265399172913358,
      5.4637849111641143699,     6.6579046435011037772};
  constexpr std::array f = {
      2.04426310338993978564e-15, 1.4215117583164458887e-7,
      1.8463183175100546818e-5,   7.868691311456132591e-4,
      0.0148753612908506148525,   0.13692988092273580531,
      0.59983220655588793769,     1.0};
  return -EvaluatePolynomial(e, r - 5) / EvaluatePolynomial(f, r - 5);
}

}  // namespace dtrain
