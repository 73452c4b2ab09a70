#include "tessera/parallel/data_parallel.h"

namespace tessera {

DataParallel::~DataParallel() = default;

}  // namespace tessera
