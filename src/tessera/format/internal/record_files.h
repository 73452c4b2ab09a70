#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/json_field.h"
#include "tessera/schedule/simulate.h"

/// What the records of pipeline actions and of units share: a folder with one file per step and
/// rank, one line per event, times in seconds.
namespace tessera::format::detail {

using RecordFiles = std::map<int64_t, std::vector<std::filesystem::path>>;  // By step.

/// "FOLDER/step-12.rank-3.json".
std::filesystem::path record_path(const std::filesystem::path& folder, int64_t step, int64_t rank);
/// Writes the file, whole or not at all, and creates its folder if needed.
void write_record(const std::filesystem::path& path, std::string_view text);
/// Ignores other files in the folder.
RecordFiles record_files(const std::filesystem::path& folder);
/// Those of one step. ConfigError if it was not recorded.
const std::vector<std::filesystem::path>& files_of_step(const RecordFiles& files, int64_t step);
std::vector<int64_t> steps_of(const RecordFiles& files);
/// DataError if a file holds something else than its name says.
void check_name(const std::filesystem::path& path, int64_t step, int64_t rank);

/// One line per event, so that a record can be read and searched.
std::string record_text(const nlohmann::ordered_json& head, std::string_view list,
                        const std::vector<nlohmann::ordered_json>& lines);
/// DataError if a file has more bytes than a record may have.
void check_record_size(std::string_view text, size_t largest, std::string_view origin);
/// A time of at most about 100 years, so that it fits 64 bits as nanoseconds.
double seconds_of(const JsonField& field);
/// From "start" to "end".
TimeSpan time_span_of(const JsonField& field);

}  // namespace tessera::format::detail
