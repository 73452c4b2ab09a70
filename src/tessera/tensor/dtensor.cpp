#include "tessera/tensor/dtensor.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/base/checked.h"
#include "tessera/tensor/internal/check_alike.h"
#include "tessera/tensor/internal/routes.h"

namespace tessera {

using namespace tensor::detail;

namespace {

// The global shape if all ranks have equal pieces.
std::vector<int64_t> joined_shape(const at::Tensor& local, const DeviceMesh& mesh,
                                  const Placements& placements) {
  std::vector<int64_t> shape = local.sizes().vec();
  const std::vector<int64_t> mesh_shape = mesh.shape();
  for (size_t axis = 0; axis < placements.size(); ++axis) {
    const auto grow = [&](int64_t dim) {
      int64_t& size = shape[static_cast<size_t>(dim)];
      size = checked_multiply(size, mesh_shape[axis], "a size of the whole tensor");
    };
    if (const auto* shard = std::get_if<Shard>(&placements[axis])) grow(shard->dim);
    if (const auto* strided = std::get_if<StridedShard>(&placements[axis])) grow(strided->dim);
  }
  return shape;
}

void check_local_shape(const at::Tensor& local, const DeviceMesh& mesh,
                       const Placements& placements, const std::vector<int64_t>& shape) {
  const Box box = compute_local_shape_and_global_offset(shape, mesh, placements);
  TSR_CHECK(local.sizes() == at::IntArrayRef(box.shape), "the local tensor of rank ",
            mesh.get_rank(), " has shape (", join(local.sizes(), ","), "), but must have (",
            join(box.shape, ","), ") for a tensor (", join(shape, ","), ") placed as ",
            to_string(placements));
}

std::string describe(const DTensor& tensor) {
  return concat("a tensor (", join(tensor.shape(), ","), ") of ", tensor.dtype(), " placed as ",
                to_string(tensor.placements()));
}

}  // namespace

DTensor::DTensor(at::Tensor local, DeviceMesh mesh, Placements placements,
                 std::vector<int64_t> shape)
    : local_(std::move(local)),
      mesh_(std::move(mesh)),
      placements_(std::move(placements)),
      shape_(std::move(shape)) {}

DTensor DTensor::from_local(const at::Tensor& local, const DeviceMesh& mesh,
                            const Placements& placements, const FromLocalOptions& options) {
  check_member(mesh);
  std::optional<DTensor> tensor;
  const auto make = [&] {
    TSR_CHECK(local.defined(), "from_local got an undefined tensor; pass a defined one");
    const int64_t num_dims =
        options.shape ? static_cast<int64_t>(options.shape->size()) : local.dim();
    Placements normal = checked_placements(placements, num_dims, mesh.ndim());
    std::vector<int64_t> shape = options.shape ? *options.shape : joined_shape(local, mesh, normal);
    check_local_shape(local, mesh, normal, shape);
    tensor = DTensor(local, mesh, std::move(normal), std::move(shape));
  };
  if (!options.check) {
    make();
    return *std::move(tensor);
  }
  const std::exception_ptr error = error_of(make);
  check_alike(mesh.get_all_groups(), "from_local", tensor ? describe(*tensor) : "refused", error);
  return *std::move(tensor);
}

at::Tensor DTensor::to_local(const std::optional<Placements>& grad_placements) const {
  if (!grad_placements) return local_;
  const auto num_dims = static_cast<int64_t>(shape_.size());
  return with_gradient_route(
      local_, {mesh_, shape_, checked_placements(*grad_placements, num_dims, mesh_.ndim()),
               gradient_placements(placements_)});
}

at::Tensor DTensor::full_tensor(const std::optional<Placements>& grad_placements) const {
  return redistribute(Placements(placements_.size(), Replicate{})).to_local(grad_placements);
}

DTensor DTensor::redistribute(const Placements& placements) const {
  return tessera::redistribute({this, 1}, {&placements, 1})[0];
}

std::vector<DTensor> redistribute(std::span<const DTensor> tensors,
                                  std::span<const Placements> placements) {
  TSR_CHECK(tensors.size() == placements.size(), "redistribute got ", placements.size(),
            " lists of placements for ", tensors.size(), " tensors; pass one per tensor");
  std::vector<at::Tensor> locals;
  std::vector<Route> routes;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const DTensor& tensor = tensors[i];
    locals.push_back(tensor.local_);
    routes.push_back({tensor.mesh_, tensor.shape_, tensor.placements_,
                      checked_placements(placements[i], static_cast<int64_t>(tensor.shape_.size()),
                                         tensor.mesh_.ndim())});
  }
  std::vector<at::Tensor> moved = redistribute_locals(locals, routes);
  std::vector<DTensor> results;
  for (size_t i = 0; i < tensors.size(); ++i) {
    Route& route = routes[i];
    results.push_back(DTensor(std::move(moved[i]), std::move(route.mesh), std::move(route.to),
                              std::move(route.shape)));
  }
  return results;
}

std::ostream& operator<<(std::ostream& out, const DTensor& tensor) {
  return out << "DTensor((" << join(tensor.shape_, ",") << ") " << tensor.dtype() << ", "
             << to_string(tensor.placements_) << ") on " << tensor.mesh_;
}

Box compute_local_shape_and_global_offset(at::IntArrayRef global_shape, const DeviceMesh& mesh,
                                          const Placements& placements,
                                          std::optional<GlobalRank> rank) {
  const GlobalRank whose = rank.value_or(mesh.get_rank());
  if (!mesh.contains(whose)) return {};
  return compute_local_shape_and_global_offset(global_shape, mesh.shape(),
                                               mesh.layout().coordinate(whose), placements);
}

Box get_local_shape_and_global_offset(const DTensor& dtensor, std::optional<GlobalRank> rank) {
  return compute_local_shape_and_global_offset(dtensor.shape(), dtensor.mesh(),
                                               dtensor.placements(), rank);
}

}  // namespace tessera
