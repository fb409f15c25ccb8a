#pragma once

#include <span>
#include <string>
#include <string_view>

namespace dtrain {

// The parts of the page, embedded when dtrain was built.
extern const char kPage_libraries[];
extern const char kPage_script[];
extern const char kPage_style[];
extern const char kPage_html[];

/// A file of the live page, by its path in the address.
struct PageFile {
  std::string_view path;  // "/app.js"; "/" is the page itself
  std::string_view type;
  std::string_view text;
};

std::span<const PageFile> PageFiles();

/// False in a build without d3, which the page needs.
bool HasPage();

struct ReportText {
  std::string title;
  std::string noscript;  // HTML for readers without JavaScript
  std::string footer;
};

/// Returns an HTML file that shows `bundle` (Bundle::Finish). It needs no other
/// file and makes no request: its Content-Security-Policy allows its own script
/// and style by their hashes and nothing else. Throws Error(kFailed).
std::string ReportHtml(const ReportText& text, std::string_view bundle);

/// Escapes a text for HTML content and for attributes in double quotes.
std::string EscapeHtml(std::string_view text);

}  // namespace dtrain
