#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/draw/loss_curve.h"

namespace tessera TSR_API {

/// One diagram over the steps of a run.
struct ReportChart {
  std::string title = {};  // "Learning rate".
  std::string unit = {};   // "tokens/s"; "" where it has none.
  std::vector<CurveSeries> series = {};
};

/// A picture made elsewhere: the mesh, a step's timeline, its simulation.
struct ReportPicture {
  std::string title = {};
  std::string words = {};  // What it shows, below it.
  std::string svg = {};    // By one of our draw_svg.
};

/// A name and a value, both as text; a value may have several lines.
using ReportFact = std::pair<std::string, std::string>;

/// Facts under a heading: a section of the configuration.
struct ReportTable {
  std::string title = {};
  std::vector<ReportFact> facts = {};
};

/// What remains of a training run to be looked at.
struct ReportPage {
  std::string title = "Training run";
  std::string summary = {};              // A sentence or two.
  std::vector<ReportChart> charts = {};  // The first, the loss, is the large one.
  std::vector<ReportFact> run = {};      // Command, start, duration, versions.
  std::vector<ReportTable> configuration = {};
  std::vector<ReportPicture> mesh = {};  // None where one process ran.
  /// The timeline of a real step and its simulation, side by side where there is much room.
  std::vector<ReportPicture> pipeline = {};
};

/// The page as JSON.
std::string page_json(const ReportPage& page);

/// The whole page: HTML that opens from a file and loads nothing. Pointing at a diagram shows the
/// values of that step in all of them.
std::string draw_page(const ReportPage& page);

}  // namespace tessera
