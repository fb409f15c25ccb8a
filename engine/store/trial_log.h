#pragma once

// The log of a trial: from the bytes of a rank to records, to the file and
// back.
#include "engine/store/log_line_splitter.h"
#include "engine/store/log_record.h"
#include "engine/store/trial_log_reader.h"
#include "engine/store/trial_log_writer.h"
