#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/checkpoint/pickle.h"

namespace dtrain {

/// The machine that a pickle is a program for: a stack, marks in it, and the
/// memo. What its operations make is kept as data; for no pickle does it call,
/// import or allocate anything but values. Throws Error(kFailed) that names
/// `what` for an operation that its stack or memo does not allow.
class PickleMachine {
 public:
  explicit PickleMachine(std::string what) : what_(std::move(what)) {}

  void Push(PickleValue value);
  PickleIndex Pop();
  void Duplicate() { stack_.push_back(Top()); }

  void Mark() { marks_.push_back(stack_.size()); }
  /// What was pushed since the last mark, which goes, too.
  std::vector<PickleIndex> PopToMark();
  std::vector<PickleIndex> Pop(std::size_t count);
  /// What POP takes: a value, or the mark if that is on top.
  void PopValueOrMark();

  void Memoize(std::uint32_t key);
  void MemoizeNext() { Memoize(static_cast<std::uint32_t>(memo_.size())); }
  void Recall(std::uint32_t key);

  /// Adds `items` to the list that is on top then.
  void Append(const std::vector<PickleIndex>& items);
  /// Adds `items`, key and value by turns, to the dict that is on top then.
  void SetItems(const std::vector<PickleIndex>& items);
  void PushGlobal(const PickleGlobal& global);
  /// STACK_GLOBAL: module and name are on the stack.
  void PushNamedGlobal();
  /// REDUCE, NEWOBJ: arguments and function are on the stack.
  void Call();
  /// BUILD: an object gets a state, which is dropped.
  void Build();

  std::vector<PickleValue> TakeValues() { return std::move(values_); }
  [[noreturn]] void Fail(const std::string& fault) const;
  [[noreturn]] void Garbled() const;

 private:
  PickleIndex Top() const;
  void Count(std::size_t items);
  bool IsCallOf(PickleIndex function, const char* module,
                const char* name) const;
  PickleDict DictOfPairs(const PickleList& pairs);

  std::string what_;
  std::vector<PickleValue> values_;
  std::vector<PickleIndex> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint32_t, PickleIndex> memo_;
  std::size_t count_ = 0;  // of values, and of items copied
};

}  // namespace dtrain
