// Line differences by the linear-space algorithm of E. W. Myers, "An O(ND)
// Difference Algorithm and Its Variations", Algorithmica 1 (1986).
//
// Two texts are the axes of a grid. A path from the upper left corner to the
// lower right one goes right (a line is removed), down (a line is added), or
// diagonally where the lines are equal, which costs nothing. The cheapest path
// is found by two searches, forward from one corner and backward from the
// other, that keep the farthest point on each diagonal for each cost. Where
// they meet, the problem is split in two. Cost and memory grow with the number
// of differences, so a search that exceeds kMaxCost stops at its farthest
// point: the result remains correct, but need not be the shortest.

#include "engine/report/text_diff.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>

namespace dtrain {
namespace {

using Index = std::int64_t;

constexpr Index kMaxCost = 2000;  // of one search
constexpr std::size_t kContext = 3;

// Lines as numbers: equal lines have equal numbers.
using Numbers = std::vector<std::size_t>;

Numbers Intern(const std::vector<std::string_view>& lines,
               std::unordered_map<std::string_view, std::size_t>& numbers) {
  Numbers result;
  for (const std::string_view line : lines) {
    result.push_back(numbers.emplace(line, numbers.size()).first->second);
  }
  return result;
}

// A part of both texts.
struct Box {
  Index left, top, right, bottom;

  Index width() const { return right - left; }
  Index height() const { return bottom - top; }
};

// A point on a cheapest path.
struct SplitPoint {
  Index x, y;
};

class Differ {
 public:
  Differ(Numbers old_lines, Numbers new_lines)
      : old_(std::move(old_lines)),
        new_(std::move(new_lines)),
        removed_(old_.size()),
        added_(new_.size()) {}

  // Marks the lines that are removed and added.
  void Run();
  std::vector<LineChange> Changes() const;

 private:
  // Returns a point that splits the box. REQUIRES: neither side is empty, and
  // the first lines differ and the last lines differ.
  SplitPoint FindSplit(const Box& box) const;
  void Trim(Box& box) const;

  Numbers old_, new_;
  std::vector<bool> removed_, added_;
};

void Differ::Trim(Box& box) const {
  while (box.width() > 0 && box.height() > 0 &&
         old_[box.left] == new_[box.top]) {
    ++box.left;
    ++box.top;
  }
  while (box.width() > 0 && box.height() > 0 &&
         old_[box.right - 1] == new_[box.bottom - 1]) {
    --box.right;
    --box.bottom;
  }
}

void Differ::Run() {
  std::vector<Box> open = {
      {0, 0, static_cast<Index>(old_.size()), static_cast<Index>(new_.size())}};
  while (!open.empty()) {
    Box box = open.back();
    open.pop_back();
    Trim(box);
    if (box.width() == 0 || box.height() == 0) {
      for (Index x = box.left; x < box.right; ++x) removed_[x] = true;
      for (Index y = box.top; y < box.bottom; ++y) added_[y] = true;
      continue;
    }
    const SplitPoint at = FindSplit(box);
    open.push_back({box.left, box.top, at.x, at.y});
    open.push_back({at.x, at.y, box.right, box.bottom});
  }
}

// One of the two searches of a box, from a corner: the farthest x that it has
// reached on each diagonal k = x - y with its cost so far.
template <typename Equal>
class Search {
 public:
  // `equal(x, y)`: the lines at a distance of x and y from the corner are
  // equal.
  Search(const Box& box, Index most, Equal equal)
      : width_(box.width()),
        height_(box.height()),
        zero_(most + 1),
        equal_(std::move(equal)),
        farthest_(static_cast<std::size_t>(2 * zero_ + 1), kNone) {}

  // The diagonals that paths of a cost can end on, in steps of 2.
  Index First(Index cost) const { return std::max(-cost, cost - 2 * height_); }
  Index Last(Index cost) const { return std::min(cost, 2 * width_ - cost); }

  // Extends the diagonal by a path of `cost`. Returns its x.
  // Diagonal k is reached from k + 1 by a step down or from k - 1 by a step to
  // the right, whichever gets farther; then equal lines are followed for free.
  Index Extend(Index cost, Index k) {
    Index x = cost == 0 ? 0 : kNone;
    const Index above = At(k + 1), left = At(k - 1);
    if (above != kNone && above - k <= height_) x = above;
    if (left != kNone && left < width_) x = std::max(x, left + 1);
    if (x == kNone) return At(k);
    while (x < width_ && x - k < height_ && equal_(x, x - k)) ++x;
    farthest_[static_cast<std::size_t>(zero_ + k)] = x;
    return x;
  }

  // True if the other search, at `x` of its own, has met this one on its
  // diagonal k.
  bool Meets(Index k, Index x) const {
    if (k < -zero_ || k > zero_) return false;
    return At(k) != kNone && x != kNone && At(k) + x >= width_;
  }

  static constexpr Index kNone = -1;

 private:
  Index At(Index k) const {
    return farthest_[static_cast<std::size_t>(zero_ + k)];
  }

  Index width_, height_;
  Index zero_;  // place of diagonal 0
  Equal equal_;
  std::vector<Index> farthest_;
};

SplitPoint Differ::FindSplit(const Box& box) const {
  // Diagonal k of one search is diagonal delta - k of the other. The length of
  // a cheapest path has the parity of delta, which decides in whose turn the
  // searches can meet.
  const Index delta = box.width() - box.height();
  const Index most = std::min((box.width() + box.height() + 1) / 2, kMaxCost);
  Search forward(box, most, [&](Index x, Index y) {
    return old_[box.left + x] == new_[box.top + y];
  });
  Search backward(box, most, [&](Index x, Index y) {
    return old_[box.right - 1 - x] == new_[box.bottom - 1 - y];
  });
  const bool odd = delta % 2 != 0;
  SplitPoint best{0, 0};
  for (Index cost = 0; cost <= most; ++cost) {
    for (Index k = forward.First(cost); k <= forward.Last(cost); k += 2) {
      const Index x = forward.Extend(cost, k);
      if (odd && backward.Meets(delta - k, x)) {
        return {box.left + x, box.top + x - k};
      }
      if (2 * x - k > best.x + best.y) best = {x, x - k};
    }
    for (Index k = backward.First(cost); k <= backward.Last(cost); k += 2) {
      const Index x = backward.Extend(cost, k);
      if (!odd && forward.Meets(delta - k, x)) {
        return {box.right - x, box.bottom - (x - k)};
      }
    }
  }
  // Too different: the farthest point of the forward search will do.
  return {box.left + best.x, box.top + best.y};
}

std::vector<LineChange> Differ::Changes() const {
  std::vector<LineChange> changes;
  std::size_t x = 0, y = 0;
  while (x < removed_.size() || y < added_.size()) {
    LineChange change{.old_begin = x, .new_begin = y};
    while (x < removed_.size() && removed_[x]) ++x;
    while (y < added_.size() && added_[y]) ++y;
    change.old_count = x - change.old_begin;
    change.new_count = y - change.new_begin;
    if (change.old_count + change.new_count > 0) {
      changes.push_back(change);
    } else {
      ++x;
      ++y;
    }
  }
  return changes;
}

void AppendLine(char sign, std::string_view line, std::string& out) {
  out += sign;
  out += line;
  if (!line.ends_with('\n')) out += "\n\\ No newline at end of file\n";
}

// "12,3"; "12" for one line. An empty range names the line before it.
std::string RangeText(std::size_t begin, std::size_t count) {
  if (count == 1) return std::to_string(begin + 1);
  return std::to_string(count == 0 ? begin : begin + 1) + "," +
         std::to_string(count);
}

}  // namespace

std::vector<std::string_view> SplitLines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t size = std::min(text.find('\n'), text.size() - 1) + 1;
    lines.push_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return lines;
}

std::vector<LineChange> DiffLines(
    const std::vector<std::string_view>& old_lines,
    const std::vector<std::string_view>& new_lines) {
  std::unordered_map<std::string_view, std::size_t> numbers;
  Numbers old_numbers = Intern(old_lines, numbers);
  Differ differ(std::move(old_numbers), Intern(new_lines, numbers));
  differ.Run();
  return differ.Changes();
}

std::string UnifiedHunks(const std::vector<std::string_view>& old_lines,
                         const std::vector<std::string_view>& new_lines,
                         const std::vector<LineChange>& changes) {
  std::string out;
  for (std::size_t i = 0; i < changes.size();) {
    // Changes whose contexts touch are one hunk.
    std::size_t end = i + 1;
    const auto old_end = [&](std::size_t change) {
      return changes[change].old_begin + changes[change].old_count;
    };
    while (end < changes.size() &&
           changes[end].old_begin - old_end(end - 1) <= 2 * kContext) {
      ++end;
    }
    const std::size_t lead = std::min(kContext, changes[i].old_begin);
    const std::size_t tail =
        std::min(kContext, old_lines.size() - old_end(end - 1));
    const std::size_t old_begin = changes[i].old_begin - lead;
    const std::size_t new_begin = changes[i].new_begin - lead;
    const std::size_t old_count = old_end(end - 1) + tail - old_begin;
    const std::size_t new_count = changes[end - 1].new_begin +
                                  changes[end - 1].new_count + tail - new_begin;
    out += "@@ -" + RangeText(old_begin, old_count) + " +" +
           RangeText(new_begin, new_count) + " @@\n";
    std::size_t x = old_begin;
    for (; i < end; ++i) {
      const LineChange& change = changes[i];
      for (; x < change.old_begin; ++x) AppendLine(' ', old_lines[x], out);
      for (; x < old_end(i); ++x) AppendLine('-', old_lines[x], out);
      for (std::size_t y = 0; y < change.new_count; ++y) {
        AppendLine('+', new_lines[change.new_begin + y], out);
      }
    }
    for (std::size_t k = 0; k < tail; ++k) {
      AppendLine(' ', old_lines[x + k], out);
    }
  }
  return out;
}

}  // namespace dtrain
