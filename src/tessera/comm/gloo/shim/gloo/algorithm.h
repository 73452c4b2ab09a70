#pragma once  // Only the name is needed: see context.h.
