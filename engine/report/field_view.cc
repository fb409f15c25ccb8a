#include "engine/report/field_view.h"

#include <cmath>

#include "engine/base/json.h"
#include "engine/base/text.h"
#include "engine/report/format.h"

namespace dtrain {

Column FieldColumn(const FieldName& field, FieldKind kind) {
  const bool is_text = kind == FieldKind::kText || kind == FieldKind::kTexts;
  const bool cut = is_text && field.function == FieldFunction::kNone;
  return {.name = field.Text(),
          .right = !is_text && kind != FieldKind::kTime,
          .elastic = cut,
          .verbatim = true};
}

Cell FieldCell(const FieldValue& value, FieldKind kind, bool local,
               Timestamp now) {
  const std::string raw = FieldText(value);
  if (std::holds_alternative<std::monostate>(value)) return {"-", ""};
  if (const auto* time = std::get_if<Timestamp>(&value)) {
    return {local ? FormatLocalTime(*time, now) : FormatTime(*time), raw};
  }
  if (const auto* whole = std::get_if<std::int64_t>(&value)) {
    return {kind == FieldKind::kBytes ? FormatBytes(*whole) : raw, raw};
  }
  if (const auto* number = std::get_if<double>(&value)) {
    const bool is_duration = kind == FieldKind::kDuration;
    return {is_duration ? FormatSeconds(*number) : FormatMetric(*number), raw};
  }
  return {raw.empty() ? "-" : raw, raw};
}

nlohmann::json FieldJson(const FieldValue& value) {
  if (const auto* number = std::get_if<double>(&value)) {
    const bool whole = std::floor(*number) == *number &&
                       std::abs(*number) < 9007199254740992.0;
    if (whole) return static_cast<std::int64_t>(*number);
    return JsonNumber(*number);
  }
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return *whole;
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    return *texts;
  }
  if (std::holds_alternative<std::monostate>(value)) return nullptr;
  return FieldText(value);
}

}  // namespace dtrain
