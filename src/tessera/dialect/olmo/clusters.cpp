#include "tessera/dialect/olmo/clusters.h"

#include <cstdlib>

namespace tessera::olmo {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

Variables jupiter() {
  Variables variables{{"NCCL_IB_HCA", "^=mlx5_bond_0"}};
  const char* nodes = std::getenv("NUM_NODES");
  if (nodes != nullptr && std::atoll(nodes) > 1) variables.emplace_back("NCCL_SOCKET_IFNAME", "ib");
  return variables;
}

Variables augusta(std::chrono::milliseconds timeout) {
  return {
      {"NCCL_CROSS_NIC", "0"},
      {"NCCL_PROTO", "Simple,LL128"},
      {"NCCL_MIN_NCHANNELS", "4"},
      {"NCCL_P2P_NET_CHUNKSIZE", "524288"},
      {"NCCL_P2P_PCI_CHUNKSIZE", "524288"},
      {"NCCL_P2P_NVL_CHUNKSIZE", "1048576"},
      {"NCCL_NVLSTREE_MAX_CHUNKSIZE", "131072"},
      {"NCCL_FASTRAK_NUM_FLOWS", "2"},
      {"NCCL_FASTRAK_ENABLE_CONTROL_CHANNEL", "0"},
      {"NCCL_BUFFSIZE", "8388608"},
      {"NCCL_FASTRAK_USE_SNAP", "1"},
      {"CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7"},
      {"NCCL_NET_GDR_LEVEL", "PIX"},
      {"NCCL_FASTRAK_ENABLE_HOTPATH_LOGGING", "0"},
      {"NCCL_USE_SNAP", "1"},
      {"NCCL_FASTRAK_USE_LLCM", "1"},
      {"NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY", "/dev/aperture_devices"},
      {"NCCL_TUNER_PLUGIN", "libnccl-tuner.so"},
      {"NCCL_TUNER_CONFIG_PATH", "/var/lib/tcpxo/lib64/a3plus_tuner_config_ll128.textproto"},
      {"NCCL_SHIMNET_GUEST_CONFIG_CHECKER_CONFIG_FILE",
       "/var/lib/tcpxo/lib64/a3plus_guest_config_ll128.textproto"},
      {"NCCL_FASTRAK_CTRL_DEV", "enp0s12"},
      {"NCCL_FASTRAK_IFNAME", "enp6s0,enp7s0,enp13s0,enp14s0,enp134s0,enp135s0,enp141s0,enp142s0"},
      {"NCCL_SOCKET_IFNAME", "enp0s12"},
      {"NCCL_DEBUG_SUBSYS", "INIT,NET"},
      {"NCCL_FASTRAK_PLUGIN_ACCEPT_TIMEOUT_MS", std::to_string(timeout.count())},
  };
}

}  // namespace

Variables cluster_variables(std::chrono::milliseconds timeout) {
  const char* hostname = std::getenv("BEAKER_NODE_HOSTNAME");
  const std::string name = hostname == nullptr ? "" : hostname;
  if (name.find("jupiter") != std::string::npos) return jupiter();
  if (name.find("pluto") != std::string::npos) return {{"NCCL_IB_HCA", "^=mlx5_1,mlx5_2"}};
  if (name.find("augusta") != std::string::npos) return augusta(timeout);
  return {};
}

}  // namespace tessera::olmo
