#include "engine/config/yaml_tree_builder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/base/text.h"
#include "engine/config/yaml_scalar.h"
#include "engine/config/yaml_text.h"

namespace dtrain {
namespace {

constexpr std::size_t kMostNodes = 100'000;
constexpr std::size_t kMostBytes = std::size_t{4} << 20;
constexpr std::size_t kMostLevels = 64;
constexpr std::string_view kCore = "tag:yaml.org,2002:";

bool IsCoreTag(std::string_view tag, std::string_view name) {
  return tag.substr(0, kCore.size()) == kCore &&
         tag.substr(kCore.size()) == name;
}

// "" and "?" stand for no tag, "!" for a quoted scalar or the tag `!`.
bool IsUntagged(std::string_view tag) {
  return tag.empty() || tag == "?" || tag == "!";
}

// The tags whose scalars are typed as if they had none, and must be it.
bool IsTagOf(std::string_view tag, Node& node) {
  if (IsCoreTag(tag, "float") && node.kind == Node::Kind::kInt) {
    node.kind = Node::Kind::kDouble;
    return true;
  }
  return (IsCoreTag(tag, "int") && node.kind == Node::Kind::kInt) ||
         (IsCoreTag(tag, "float") && node.kind == Node::Kind::kDouble) ||
         (IsCoreTag(tag, "bool") && node.kind == Node::Kind::kBool) ||
         (IsCoreTag(tag, "null") && node.kind == Node::Kind::kNull);
}

}  // namespace

YamlTreeBuilder::YamlTreeBuilder(std::string_view text, Mark origin,
                                 Findings& findings)
    : text_(text), origin_(origin), findings_(findings) {}

void YamlTreeBuilder::OnDocumentStart(const YAML::Mark& mark) {
  ++documents_;
  if (documents_ == 2) {
    Stop(ToMark(mark),
         "a second document begins here; write one experiment a file, and "
         "give all keys of one level the same indentation");
  }
}

void YamlTreeBuilder::OnDocumentEnd() {}

void YamlTreeBuilder::OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) {
  Node node;
  node.mark = ToMark(mark);
  Accept(std::move(node), anchor, /*plain=*/true);
}

void YamlTreeBuilder::OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) {
  if (stopped_) return;
  const auto found = anchors_.find(anchor);
  if (found == anchors_.end()) {
    Stop(ToMark(mark),
         "an alias inside the value that it stands for; write "
         "the value out");
    return;
  }
  const Size size = Measure(found->second);
  if (frames_.size() + size.depth > kMostLevels) {
    Stop(ToMark(mark), "nested deeper than " + std::to_string(kMostLevels) +
                           " levels; make it flatter");
    return;
  }
  if (!Spend(size, ToMark(mark))) return;
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
    Stop(at, "a quote that is never closed; close it");
    return;
  }
  Node node = TypedScalar(tag, value, at);
  node.mark = at;
  if (value.find('\0') != value.npos) {
    findings_.Error(at, Path(), "a text with a NUL character; remove it");
  }
  Accept(std::move(node), anchor, tag == "?");
}

Node YamlTreeBuilder::TypedScalar(const std::string& tag,
                                  const std::string& value, Mark mark) {
  if (tag == "!" || IsCoreTag(tag, "str")) return QuotedScalar(value);
  Node node = PlainScalar(value);
  if (IsUntagged(tag) || IsTagOf(tag, node)) return node;
  const bool core = tag.substr(0, kCore.size()) == kCore;
  findings_.Error(mark, Path(),
                  "the tag '" + (core ? "!!" + tag.substr(kCore.size()) : tag) +
                      "' is not supported here; write the plain value");
  if (core) node.kind = Node::Kind::kNull;  // said once is enough
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
    Stop(at,
         "a list or map as a key, or a bracket that is never closed; mend it");
    return;
  }
  if (frames_.size() >= kMostLevels) {
    Stop(at, "nested deeper than " + std::to_string(kMostLevels) +
                 " levels; make it flatter");
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
  Accept(std::move(frame.node), frame.anchor, /*plain=*/false);
}

void YamlTreeBuilder::Accept(Node value, YAML::anchor_t anchor, bool plain) {
  if (stopped_) return;
  if (!Spend({1, value.text.size(), 0}, value.mark)) return;
  if (anchor != 0) {
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
  if (std::exchange(frame.drop_value, false)) return;
  // A value below its key is told by its key: that is where one looks.
  if (value.is_null() || value.mark.line != frame.pending.mark.line) {
    value.mark = frame.pending.mark;
  }
  frame.pending.value = std::move(value);
  frame.node.entries.push_back(std::move(frame.pending));
}

void YamlTreeBuilder::AcceptKey(const Node& key, bool plain) {
  Frame& frame = frames_.back();
  if (!key.IsScalar()) {
    Stop(key.mark,
         "a list or map as a key, or a bracket that is never closed; mend it");
    return;
  }
  frame.has_key = true;
  frame.pending = {key.text, key.mark, {}};
  std::string problem;
  if (key.text.empty() || key.is_null()) {
    problem = "a key without a name; give it one, in quotes if need be";
  } else if (plain && key.text == "<<") {
    problem = "merge keys are not supported; write the keys out";
  } else {
    const auto [first, fresh] = frame.lines.emplace(key.text, key.mark.line);
    if (!fresh) {
      problem = "duplicate key";
      if (first->second > 0) {
        problem += ", first in line " + std::to_string(first->second);
      }
      problem += "; remove one of them";
    }
  }
  if (problem.empty()) return;
  findings_.Error(key.mark, Path(), problem);
  frame.drop_value = true;
}

bool YamlTreeBuilder::Spend(const Size& size, Mark mark) {
  spent_.nodes += size.nodes;
  spent_.bytes += size.bytes;
  if (spent_.nodes > kMostNodes) {
    Stop(mark, "more than " + std::to_string(kMostNodes) +
                   " keys and values, aliases expanded; make it smaller");
  } else if (spent_.bytes > kMostBytes) {
    Stop(mark, "more than " + std::to_string(kMostBytes) +
                   " bytes of text, aliases expanded; make it smaller");
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

}  // namespace dtrain
