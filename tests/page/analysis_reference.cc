// Answers requests for the functions of engine/analysis, so that page_test.py
// can compare them with those of the page. Reads a JSON array of requests from
// standard input and prints an array of results.

#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/analysis/statistics.h"
#include "engine/base/json.h"

namespace dtrain {
namespace {

using nlohmann::json;

std::vector<double> Numbers(const json& values) {
  std::vector<double> numbers;
  for (const json& value : values) numbers.push_back(NumberFromJson(value));
  return numbers;
}

template <typename Values>
json NumbersJson(const Values& values) {
  json numbers = json::array();
  for (const auto value : values) {
    numbers.push_back(JsonNumber(static_cast<double>(value)));
  }
  return numbers;
}

json PointsJson(const std::vector<CurvePoint>& points) {
  json list = json::array();
  for (const auto& [x, y] : points) {
    list.push_back({JsonNumber(x), JsonNumber(y)});
  }
  return list;
}

std::vector<CurvePoint> Points(const json& list) {
  std::vector<CurvePoint> points;
  for (const json& point : list) {
    points.emplace_back(NumberFromJson(point.at(0)),
                        NumberFromJson(point.at(1)));
  }
  return points;
}

json RanksOf(const json& in) {
  return NumbersJson(Ranks(Numbers(in.at("values"))));
}

json DistributionOf(const json& in) {
  return PointsJson(EmpiricalDistribution(Numbers(in.at("values"))));
}

json HistoryOf(const json& in) {
  static const std::map<std::string, Effort> kEfforts = {
      {"trials", Effort::kTrials},
      {"batches", Effort::kBatches},
      {"epochs", Effort::kEpochs},
      {"seconds", Effort::kSeconds}};
  std::vector<Observation> observations;
  for (const json& one : in.at("observations")) {
    observations.push_back(
        {.time = Timestamp(one.at("microseconds").get<std::int64_t>()),
         .trial = one.at("trial").get<std::int64_t>(),
         .batches = one.at("batches").get<std::int64_t>(),
         .value = NumberFromJson(one.at("value")),
         .epochs = one.value("epochs", 0.0)});
  }
  const Effort effort = kEfforts.at(in.at("effort").get<std::string>());
  const Timestamp start(in.at("start").get<std::int64_t>());
  const bool smaller = in.at("smaller").get<bool>();
  return {
      {"efforts", NumbersJson(ComputeEfforts(observations, effort, start))},
      {"best", PointsJson(BestSoFar(observations, effort, start, smaller))}};
}

json FrontOf(const json& in) {
  std::vector<std::vector<double>> points;
  for (const auto& [x, y] : Points(in.at("points"))) points.push_back({x, y});
  return NumbersJson(ParetoFront(points, {true, true}));
}

json RungsOf(const json& in) {
  std::vector<RungProgress> trials;
  for (const json& one : in.at("trials")) {
    trials.push_back(
        {.completed = one.at(0).get<std::size_t>(),
         .end = static_cast<RungProgress::End>(one.at(1).get<int>())});
  }
  json rungs = json::array();
  for (const RungCount& one : CountRungs(trials)) {
    rungs.push_back({{"reached", one.reached()},
                     {"went_on", one.went_on},
                     {"completed", one.completed},
                     {"ended", one.ended},
                     {"open", one.open}});
  }
  return rungs;
}

json LimitsOf(const json& in) {
  const auto limits =
      FindRobustLimits(Numbers(in.at("lows")), Numbers(in.at("highs")));
  if (!limits) return json::array();
  return {{"low", limits->low},
          {"high", limits->high},
          {"below", limits->below},
          {"above", limits->above}};
}

json FieldOf(const json& in) {
  std::vector<FieldSample> samples;
  for (const json& one : in.at("samples")) {
    samples.push_back({.x = one.at(0).get<double>(),
                       .y = one.at(1).get<double>(),
                       .value = one.at(2).get<double>()});
  }
  return NumbersJson(EstimateField(
      samples,
      {in.at("columns").get<std::size_t>(), in.at("by_name_x").get<bool>()},
      {in.at("rows").get<std::size_t>(), in.at("by_name_y").get<bool>()}));
}

json SmoothedOf(const json& in) {
  std::vector<CurvePoint> points;
  for (const double value : Numbers(in.at("values"))) {
    points.emplace_back(static_cast<double>(points.size()), value);
  }
  Smooth(in.at("weight").get<double>(), points);
  json values = json::array();
  for (const CurvePoint& point : points) {
    values.push_back(JsonNumber(point.second));
  }
  return values;
}

json MeanOf(const json& in) {
  std::vector<std::vector<CurvePoint>> curves;
  for (const json& curve : in.at("curves")) curves.push_back(Points(curve));
  json means = json::array();
  for (const MeanPoint& point : MeanCurve(curves)) {
    means.push_back({point.x, point.mean, point.deviation, point.count});
  }
  return means;
}

json DecimatedOf(const json& in) {
  return NumbersJson(DecimatedPoints(Points(in.at("points")),
                                     in.at("columns").get<std::size_t>()));
}

int Answer() {
  static const std::map<std::string, json (*)(const json&)> kFunctions = {
      {"ranks", RanksOf},         {"distribution", DistributionOf},
      {"history", HistoryOf},     {"front", FrontOf},
      {"rungs", RungsOf},         {"field", FieldOf},
      {"limits", LimitsOf},       {"smoothed", SmoothedOf},
      {"decimated", DecimatedOf}, {"mean", MeanOf}};
  json results = json::array();
  for (const json& request : json::parse(std::cin)) {
    results.push_back(
        kFunctions.at(request.at("function").get<std::string>())(request));
  }
  std::cout << results.dump() << '\n';
  return 0;
}

}  // namespace
}  // namespace dtrain

int main() { return dtrain::Answer(); }
