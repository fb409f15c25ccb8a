#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/mark.h>

#include "engine/config/findings.h"
#include "engine/config/node.h"

namespace dtrain {

/// Takes yaml-cpp's events and builds a tree from them within limits. It does
/// not use yaml-cpp's own nodes, which accept duplicate keys and cycles. After
/// an error that leaves no tree, `stopped()`, all events are ignored.
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
  Node TakeRoot() { return std::move(root_); }

  /// Where yaml-cpp's `mark` is, in our terms.
  Mark ToMark(const YAML::Mark& mark) const;

 private:
  // A collection that is not closed yet.
  struct Frame {
    Node node;
    YAML::anchor_t anchor = 0;
    bool has_key = false;     // of a map: its value comes next
    bool drop_value = false;  // the key was refused
    Node::Entry pending;      // the key that waits for its value
    std::unordered_map<std::string, int> lines;  // of the keys so far
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
  Node TypedScalar(const std::string& tag, const std::string& value, Mark mark);
  bool Spend(const Size& size, Mark mark);
  std::string Path() const;
  void Stop(Mark mark, const std::string& message);

  std::string_view text_;
  Mark origin_;
  Findings& findings_;
  std::vector<Frame> frames_;
  std::map<YAML::anchor_t, Node> anchors_;  // those whose values are complete
  Node root_;
  Size spent_;
  int documents_ = 0;
  bool stopped_ = false;
};

}  // namespace dtrain
