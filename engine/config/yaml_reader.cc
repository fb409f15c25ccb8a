// yaml-cpp parses the text, and YamlTreeBuilder builds a tree of Nodes from its
// events. Aliases are expanded as they occur, so a few lines could expand to a
// tree of any size. Therefore each value is counted when it is added, an alias
// with its whole value, and the limits stop the build. Scalars are typed here
// by the rules of YAML 1.2; yaml-cpp follows those of 1.1. Merge keys (`<<`)
// are of YAML 1.1, but common in experiment files.
//
// The builder keeps a stack of open lists and maps (Frame). A value is complete
// when its frame is closed, and is then added to the frame below: Accept is the
// one place where a value finds its parent, its key and its anchor. A map gets
// the keys of its merge keys when it is closed, because its own keys prevail
// wherever they stand.

#include "engine/config/yaml_reader.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <istream>
#include <map>
#include <streambuf>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include "engine/base/text.h"
#include "engine/config/findings.h"
#include "engine/config/node.h"
#include "engine/config/yaml_text.h"

namespace dtrain {
namespace {

// Builds a tree within limits from yaml-cpp's events. Does not use yaml-cpp's
// own nodes, which accept duplicate keys and cycles. After a fatal error,
// `stopped()`, all events are ignored.
class YamlTreeBuilder : public YAML::EventHandler {
 public:
  YamlTreeBuilder(std::string_view text, Mark origin, Findings& findings);

  void OnDocumentStart(const YAML::Mark& mark) override;
  void OnDocumentEnd() override;
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override;
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override;
  void OnScalar(const YAML::Mark& mark, const std::string& tag,
                YAML::anchor_t anchor, const std::string& value) override;
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag,
                       YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override;
  void OnSequenceEnd() override;
  void OnMapStart(const YAML::Mark& mark, const std::string& tag,
                  YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override;
  void OnMapEnd() override;

  bool stopped() const { return stopped_; }
  Node ReleaseRoot() { return std::move(root_); }

  // Converts yaml-cpp's `mark`, which counts from 0.
  Mark ToMark(const YAML::Mark& mark) const;

 private:
  // A list or map that is not closed yet.
  struct Frame {
    Node node;
    YAML::anchor_t anchor = 0;
    bool has_key = false;      // of a map: the value comes next
    bool drop_value = false;   // the key was refused
    bool is_merge = false;     // the key is `<<`
    Node::Entry pending;       // key whose value comes next
    std::vector<Node> merged;  // maps of `<<`, the one that prevails first
    // Lines of the keys so far; "" for `<<`.
    std::unordered_map<std::string, int> lines;
  };
  struct Size {
    std::size_t nodes = 0;
    std::size_t bytes = 0;
    std::size_t depth = 0;
  };

  static Size Measure(const Node& node);
  bool AwaitsKey() const;
  void Open(Node::Kind kind, const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor);
  void CloseFrame();
  void Accept(Node value, YAML::anchor_t anchor, bool plain);
  void AcceptKey(const Node& key, bool plain);
  static void Merge(Frame& frame);
  Node TypedScalar(const std::string& tag, const std::string& value, Mark mark);
  bool Spend(const Size& size, Mark mark);
  std::string Path() const;
  void Stop(Mark mark, const std::string& message);

  std::string_view text_;
  Mark origin_;
  Findings& findings_;
  std::vector<Frame> frames_;
  std::map<YAML::anchor_t, Node> anchors_;  // with complete values
  Node root_;
  Size spent_;
  int documents_ = 0;
  bool stopped_ = false;
};

constexpr std::size_t kMaxNodes = 100'000;
constexpr std::size_t kMaxBytes = std::size_t{4} << 20;
constexpr std::size_t kMaxLevels = 64;
constexpr std::string_view kCore = "tag:yaml.org,2002:";

bool IsCoreTag(std::string_view tag, std::string_view name) {
  return tag.substr(0, kCore.size()) == kCore &&
         tag.substr(kCore.size()) == name;
}

// True for "" and "?", which mean no tag, and "!", which means a quoted scalar
// or the tag `!`.
bool IsUntagged(std::string_view tag) {
  return tag.empty() || tag == "?" || tag == "!";
}

YamlTreeBuilder::YamlTreeBuilder(std::string_view text, Mark origin,
                                 Findings& findings)
    : text_(text), origin_(origin), findings_(findings) {}

void YamlTreeBuilder::OnDocumentStart(const YAML::Mark& mark) {
  ++documents_;
  if (documents_ == 2) {
    Stop(ToMark(mark),
         "second document; write one experiment per file, and indent all "
         "keys of one level equally");
  }
}

void YamlTreeBuilder::OnDocumentEnd() {}

void YamlTreeBuilder::OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) {
  Node node;
  node.mark = ToMark(mark);
  // yaml-cpp gives no text: null and a value that is missing are one event.
  const std::string_view rest =
      text_.substr(std::min(text_.size(), static_cast<std::size_t>(mark.pos)));
  for (const std::string_view word : {"~", "null", "Null", "NULL"}) {
    if (rest.starts_with(word)) node.text = word;
  }
  Accept(std::move(node), anchor, /*plain=*/true);
}

void YamlTreeBuilder::OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) {
  if (stopped_) return;
  const auto found = anchors_.find(anchor);
  if (found == anchors_.end()) {
    Stop(ToMark(mark), "alias inside its own value; write the value out");
    return;
  }
  const Size size = Measure(found->second);
  if (frames_.size() + size.depth > kMaxLevels) {
    Stop(ToMark(mark), "nested deeper than " + std::to_string(kMaxLevels) +
                           " levels; reduce the nesting");
    return;
  }
  if (!Spend(size, ToMark(mark))) return;
  // A copy, so that the tree has no cycles and overrides change one place.
  Node copy = found->second;
  copy.mark = ToMark(mark);
  Accept(std::move(copy), 0, /*plain=*/false);
}

void YamlTreeBuilder::OnScalar(const YAML::Mark& mark, const std::string& tag,
                               YAML::anchor_t anchor,
                               const std::string& value) {
  if (stopped_) return;
  const Mark at = ToMark(mark);
  if (tag != "?" &&
      IsUnclosedQuote(text_, static_cast<std::size_t>(mark.pos))) {
    Stop(at, "unclosed quote; close it");
    return;
  }
  Node node = TypedScalar(tag, value, at);
  node.mark = at;
  if (value.find('\0') != value.npos) {
    findings_.Error(at, Path(), "string with a NUL character; remove it");
  }
  Accept(std::move(node), anchor, tag == "?");
}

Node YamlTreeBuilder::TypedScalar(const std::string& tag,
                                  const std::string& value, Mark mark) {
  if (tag == "!" || IsCoreTag(tag, "str")) return QuotedScalar(value);
  Node node = PlainScalar(value);
  if (IsCoreTag(tag, "float") && node.kind == Node::Kind::kInt) {
    node.kind = Node::Kind::kDouble;
  }
  // A tag may confirm the type of the scalar.
  if (IsUntagged(tag) ||
      (IsCoreTag(tag, "int") && node.kind == Node::Kind::kInt) ||
      (IsCoreTag(tag, "float") && node.kind == Node::Kind::kDouble) ||
      (IsCoreTag(tag, "bool") && node.kind == Node::Kind::kBool) ||
      (IsCoreTag(tag, "null") && node.kind == Node::Kind::kNull)) {
    return node;
  }
  const bool core = tag.substr(0, kCore.size()) == kCore;
  findings_.Error(mark, Path(),
                  "the tag '" + (core ? "!!" + tag.substr(kCore.size()) : tag) +
                      "' is not supported here; write the plain value");
  if (core) node.kind = Node::Kind::kNull;  // no second finding about it
  return node;
}

void YamlTreeBuilder::OnSequenceStart(const YAML::Mark& mark,
                                      const std::string& tag,
                                      YAML::anchor_t anchor,
                                      YAML::EmitterStyle::value) {
  Open(Node::Kind::kList, mark, tag, anchor);
}

void YamlTreeBuilder::OnSequenceEnd() { CloseFrame(); }

void YamlTreeBuilder::OnMapStart(const YAML::Mark& mark, const std::string& tag,
                                 YAML::anchor_t anchor,
                                 YAML::EmitterStyle::value) {
  Open(Node::Kind::kMap, mark, tag, anchor);
}

void YamlTreeBuilder::OnMapEnd() { CloseFrame(); }

Mark YamlTreeBuilder::ToMark(const YAML::Mark& mark) const {
  if (origin_.override_index >= 0) return origin_;
  return {mark.line + 1, mark.column + 1};
}

YamlTreeBuilder::Size YamlTreeBuilder::Measure(const Node& node) {
  Size size{1, node.text.size(), 0};
  const auto add = [&](const Node& child) {
    const Size part = Measure(child);
    size.nodes += part.nodes;
    size.bytes += part.bytes;
    size.depth = std::max(size.depth, part.depth);
  };
  for (const Node& item : node.items) add(item);
  for (const Node::Entry& entry : node.entries) {
    add(entry.value);
    size.bytes += entry.key.size();
  }
  if (!node.IsScalar()) ++size.depth;
  return size;
}

bool YamlTreeBuilder::AwaitsKey() const {
  return !frames_.empty() && frames_.back().node.is_map() &&
         !frames_.back().has_key;
}

void YamlTreeBuilder::Open(Node::Kind kind, const YAML::Mark& mark,
                           const std::string& tag, YAML::anchor_t anchor) {
  if (stopped_) return;
  const Mark at = ToMark(mark);
  if (AwaitsKey()) {
    Stop(at, "a list or map as key, or an unclosed bracket; fix it");
    return;
  }
  if (frames_.size() >= kMaxLevels) {
    Stop(at, "nested deeper than " + std::to_string(kMaxLevels) +
                 " levels; reduce the nesting");
    return;
  }
  const bool map = kind == Node::Kind::kMap;
  if (!IsUntagged(tag) && !IsCoreTag(tag, map ? "map" : "seq")) {
    findings_.Error(at, Path(),
                    "the tag '" + tag + "' is not supported; remove it");
  }
  Frame frame;
  frame.node.kind = kind;
  frame.node.mark = at;
  frame.anchor = anchor;
  frames_.push_back(std::move(frame));
}

void YamlTreeBuilder::CloseFrame() {
  if (stopped_) return;
  Frame frame = std::move(frames_.back());
  frames_.pop_back();
  Merge(frame);
  Accept(std::move(frame.node), frame.anchor, /*plain=*/false);
}

void YamlTreeBuilder::Accept(Node value, YAML::anchor_t anchor, bool plain) {
  if (stopped_) return;
  if (!Spend({1, value.text.size(), 0}, value.mark)) return;
  if (anchor != 0) {
    // The stored value of an anchor occupies memory even without an alias.
    if (!Spend(Measure(value), value.mark)) return;
    anchors_[anchor] = value;
  }
  if (frames_.empty()) {
    root_ = std::move(value);
    return;
  }
  if (AwaitsKey()) {
    AcceptKey(value, plain);
    return;
  }
  Frame& frame = frames_.back();
  if (frame.node.is_list()) {
    frame.node.items.push_back(std::move(value));
    return;
  }
  frame.has_key = false;
  const bool merge = std::exchange(frame.is_merge, false);
  if (std::exchange(frame.drop_value, false)) return;
  // Findings about a value below its key are placed at the key.
  if (value.is_null() || value.mark.line != frame.pending.mark.line) {
    value.mark = frame.pending.mark;
  }
  if (merge) {
    std::vector<Node> maps;
    if (value.is_list()) {
      maps = std::move(value.items);
    } else {
      maps.push_back(std::move(value));
    }
    for (Node& map : maps) {
      if (!map.is_map()) {
        findings_.Error(map.mark, JoinPath(Path(), "<<"),
                        "expected a map or a list of maps, got " +
                            Describe(map) +
                            "; merge one by its alias, <<: *name");
        return;
      }
      frame.merged.push_back(std::move(map));
    }
    return;
  }
  frame.pending.value = std::move(value);
  frame.node.entries.push_back(std::move(frame.pending));
}

void YamlTreeBuilder::AcceptKey(const Node& key, bool plain) {
  Frame& frame = frames_.back();
  if (!key.IsScalar()) {
    Stop(key.mark, "a list or map as key, or an unclosed bracket; fix it");
    return;
  }
  frame.has_key = true;
  frame.pending = {key.is_null() ? "" : key.text, key.mark, {}};
  frame.is_merge = plain && key.text == "<<";
  std::string problem;
  if (key.text.empty() || key.is_null()) {
    problem = "empty key; give it a name";
  } else {
    const auto [first, fresh] =
        frame.lines.emplace(frame.is_merge ? "" : key.text, key.mark.line);
    if (!fresh) {
      problem = "duplicate key";
      if (first->second > 0) {
        problem += ", first on line " + std::to_string(first->second);
      }
      problem += frame.is_merge ? "; write one list, <<: [*a, *b]"
                                : "; remove one of them";
    }
  }
  if (problem.empty()) return;
  findings_.Error(key.mark, Path(), problem);
  frame.drop_value = true;
}

// Adds the keys of merged maps that the map does not have itself.
void YamlTreeBuilder::Merge(Frame& frame) {
  for (Node& map : frame.merged) {
    for (Node::Entry& entry : map.entries) {
      if (!frame.lines.emplace(entry.key, entry.mark.line).second) continue;
      frame.node.entries.push_back(std::move(entry));
    }
  }
}

bool YamlTreeBuilder::Spend(const Size& size, Mark mark) {
  spent_.nodes += size.nodes;
  spent_.bytes += size.bytes;
  if (spent_.nodes > kMaxNodes) {
    Stop(mark, "more than " + std::to_string(kMaxNodes) +
                   " keys and values, aliases expanded; simplify it");
  } else if (spent_.bytes > kMaxBytes) {
    Stop(mark, "more than " + std::to_string(kMaxBytes) +
                   " bytes of text, aliases expanded; simplify it");
  }
  return !stopped_;
}

std::string YamlTreeBuilder::Path() const {
  std::string path;
  for (const Frame& frame : frames_) {
    if (frame.node.is_list()) {
      path += '[' + std::to_string(frame.node.items.size()) + ']';
    } else if (frame.has_key && !frame.pending.key.empty()) {
      path = JoinPath(path, frame.pending.key);
    }
  }
  return Truncate(path, 100);
}

void YamlTreeBuilder::Stop(Mark mark, const std::string& message) {
  findings_.Error(mark, stopped_ ? "" : Path(), message);
  stopped_ = true;
}

// Reads a string view without copying it.
class ViewBuffer : public std::streambuf {
 public:
  explicit ViewBuffer(std::string_view text) {
    char* begin = const_cast<char*>(text.data());
    setg(begin, begin, begin + text.size());
  }
};

// Explains a message of yaml-cpp and names a remedy.
std::string Explain(const YAML::Exception& error, std::string_view text) {
  // The line, or the next that is not blank, starts with a tab: the usual cause
  // of a syntax error.
  std::size_t start = 0;
  for (int i = 0; i < error.mark.line; ++i) {
    const std::size_t end = text.find('\n', start);
    if (end == text.npos) break;
    start = end + 1;
  }
  const std::size_t first = text.find_first_not_of(' ', start);
  if (first != text.npos && text[first] == '\t') {
    return "a tab in the indentation; indent with spaces";
  }
  if (error.msg == "illegal map value") {
    return "unexpected ':'; quote the value, or fix the indentation above";
  }
  if (error.msg == "end of map not found" ||
      error.msg == "end of sequence not found") {
    return "unexpected indentation; align this line with a key above";
  }
  if (error.msg == "unknown token") {
    return "a value cannot start with this character; quote it";
  }
  return "invalid YAML (" + error.msg + "); fix this line or the one above";
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
      // yaml-cpp may count beyond the end of the text.
      const bool behind = error.mark.pos > static_cast<int>(text.size());
      findings.Error(behind && origin.override_index < 0
                         ? MarkAt(text, text.size())
                         : builder.ToMark(error.mark),
                     "", Explain(error, text));
    }
    return std::nullopt;
  }
  if (builder.stopped()) return std::nullopt;
  return builder.ReleaseRoot();
}

}  // namespace dtrain
