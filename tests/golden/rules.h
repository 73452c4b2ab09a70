#pragma once

#include "tests/golden/golden.h"

/// The one place that says where Tessera answers otherwise than a peer, and why. A rule speaks of a
/// kind of input, never of a case.
namespace tessera::golden::rules {

inline const Rule kRepeatedOrderEntry{
    "repeated order entry", "the peer counts the size twice and silently builds wrong groups"};
inline const Rule kNegativeOffset{"negative rank offset",
                                  "the peer ignores it silently; ranks start at 0"};
inline const Rule kSizeBelowOne{"size below one", "no group has fewer than one rank"};
inline const Rule kWorldIsNotTheProduct{
    "world is not the product of the sizes",
    "the peer silently leaves ranks without a group, or makes none at all"};
inline const Rule kMaskDoesNotFit{"mask of another length than the sizes",
                                  "the peer silently drops what has no partner"};
inline const Rule kRepeatedRank{"rank listed twice",
                                "the peer makes groups in which a rank would wait for itself"};
inline const Rule kRankOutsideTheWorld{"rank outside the world",
                                       "the peer does not look where it makes no group of it"};
inline const Rule kUnknownNcclName{
    "unknown NCCL section, key or high-priority group",
    "the peer ignores it silently; ours refuses it, and without it gives the peer's groups"};
inline const Rule kBadNcclValue{"bad value in an NCCL section",
                                "the peer looks at a section only where a group uses it"};
inline const Rule kUpperCaseOrder{"order that ends with pp in upper case",
                                  "the peer reads orders in either case but looks for a lower-case "
                                  "pp at the end; ours answers as "
                                  "for the lower-case order"};
inline const Rule kTooManyOptions{"more options than levels",
                                  "the peer silently drops those that belong to no level"};
inline const Rule kContradictingArguments{
    "arguments that contradict the variables",
    "the peer sets variables of another world than it connects to; ours refuses"};
inline const Rule kStateLeftOver{
    "state after a refused initialisation",
    "the peer leaves a group behind; ours checks first and leaves none"};
inline const Rule kAnswersOfThePast{"answers after destroy or a refused initialisation",
                                    "the peer still answers with groups and ranks of before; ours "
                                    "as a process that never had them"};
inline const Rule kDoublePrecision{"doubles keep their precision",
                                   "the peer rounds them to float32 on the way"};
inline const Rule kUnevenGather{"uneven all_gather on Gloo",
                                "the peer means to support it and fails; ours does it"};
inline const Rule kEmptyLastShards{"default flat sharding whose last ranks get nothing",
                                   "the peer fails; ours gives them empty shards"};
inline const Rule kOverlappingSpans{
    "spans that overlap", "the peer looks at the sum of lengths alone and loses elements"};
inline const Rule kSpecForOtherRanks{
    "sharding spec for another number of ranks than the group's",
    "the peer loses elements, or fails on one rank alone; ours refuses it on all"};
inline const Rule kRankWithoutSpans{"rank without any span",
                                    "the peer fails to cut nothing; ours gives an empty chunk"};
inline const Rule kFirstOfTheGroup{
    "rank0_only in a group without global rank 0",
    "the peer fails: it sends to global rank 0; ours means the group's rank 0, as its page does"};
inline const Rule kEmptyShardOffset{
    "offset of an empty shard",
    "it follows PyTorch 2.13, the end of the dimension; the older peer mixes offsets of two cuts"};

}  // namespace tessera::golden::rules
