#include "engine/config/yaml_reader.h"

#include <istream>
#include <streambuf>
#include <string>

#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "engine/config/yaml_text.h"
#include "engine/config/yaml_tree_builder.h"

namespace dtrain {
namespace {

// Reads a string view without copying it.
class ViewBuffer : public std::streambuf {
 public:
  explicit ViewBuffer(std::string_view text) {
    char* begin = const_cast<char*>(text.data());
    setg(begin, begin, begin + text.size());
  }
};

// Whether a line at or above `line` (from 0) that is not blank begins with a
// tab: the usual cause of a syntax error there.
bool HasTabIndent(std::string_view text, int line) {
  std::size_t start = 0;
  for (int i = 0; i < line; ++i) {
    const std::size_t end = text.find('\n', start);
    if (end == text.npos) break;
    start = end + 1;
  }
  const std::size_t first = text.find_first_not_of(' ', start);
  return first != text.npos && text[first] == '\t';
}

// Where yaml-cpp found an error; it counts on behind the end of the text.
Mark PlaceOf(const YAML::Exception& error, std::string_view text,
             const YamlTreeBuilder& builder, Mark origin) {
  const bool behind = error.mark.pos > static_cast<int>(text.size());
  if (behind && origin.override_index < 0) return MarkAt(text, text.size());
  return builder.ToMark(error.mark);
}

// What to do about a message of yaml-cpp.
std::string Explain(const YAML::Exception& error, std::string_view text) {
  if (HasTabIndent(text, error.mark.line)) {
    return "a tab in the indentation; indent with spaces";
  }
  if (error.msg == "illegal map value") {
    return "a ':' where no key can stand; quote the value, or mend the "
           "indentation above";
  }
  if (error.msg == "end of map not found" ||
      error.msg == "end of sequence not found") {
    return "this fits no key or list above it; mend the indentation";
  }
  if (error.msg == "unknown token") {
    return "a value cannot begin with this character; quote it";
  }
  return "not valid YAML (" + error.msg + "); mend it here or just above";
}

}  // namespace

std::optional<Node> ReadYaml(std::string_view text, Mark origin,
                             Findings& findings) {
  if (!CheckText(text, origin, findings)) return std::nullopt;
  YamlTreeBuilder builder(text, origin, findings);
  try {
    ViewBuffer buffer(text);
    std::istream stream(&buffer);
    YAML::Parser parser(stream);
    while (!builder.stopped() && parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    if (!builder.stopped()) {
      findings.Error(PlaceOf(error, text, builder, origin), "",
                     Explain(error, text));
    }
    return std::nullopt;
  }
  if (builder.stopped()) return std::nullopt;
  return builder.TakeRoot();
}

}  // namespace dtrain
