#pragma once

#include <string>

namespace dtrain {

/// `text` as it may stand in XML, between tags and in attributes, escaped for
/// terminals as well.
std::string EscapeXml(const std::string& text);

}  // namespace dtrain
