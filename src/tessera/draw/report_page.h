#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/draw/loss_curve.h"

namespace tessera TSR_API {

/// One chart over the steps of a run.
struct ReportChart {
  std::string title = {};                // "Learning rate".
  std::string unit = {};                 // "tokens/s"; "" if it has none.
  std::vector<CurveSeries> series = {};  // The first one is a line, the others have dots.
};

/// A picture from elsewhere: the mesh, the timeline of a step, its simulation.
struct ReportPicture {
  std::string title = {};  // The heading above it.
  std::string words = {};  // A caption, shown below the picture.
  std::string svg = {};    // From one of our draw_svg functions.
};

/// A name and a value, both as text; a value may span several lines.
using ReportFact = std::pair<std::string, std::string>;

/// Facts under a heading, e.g. a section of the configuration.
struct ReportTable {
  std::string title = {};              // The heading.
  std::vector<ReportFact> facts = {};  // One row each.
};

/// The report of a training run.
struct ReportPage {
  std::string title = "Training run";           // Also the heading.
  std::string summary = {};                     // One or two sentences.
  std::vector<ReportChart> charts = {};         // The first one, the loss, is the large one.
  std::vector<ReportFact> run = {};             // Command, start, duration, versions.
  std::vector<ReportTable> configuration = {};  // One table per section.
  std::vector<ReportPicture> mesh = {};         // Empty for a single process.
  /// Timelines of recorded steps, and other pictures; side by side on a wide screen.
  std::vector<ReportPicture> pipeline = {};
  /// The path at its server from which the page gets its newer JSON, again and again; "": never.
  std::string live = {};
};

/// The page as JSON.
std::string page_json(const ReportPage& page);

/// The whole page: self-contained HTML that opens from a file. Pointing at a chart shows the values
/// of that step in all charts.
std::string draw_page(const ReportPage& page);

}  // namespace tessera
