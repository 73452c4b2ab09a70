#pragma once

#include <string>

#include "tests/golden/golden.h"

/// The one place that says where Tessera answers otherwise than a peer, and why. A rule speaks of a
/// kind of input, never of a case, and holds in every table that has such inputs: the functions at
/// the end say which rule an input falls under, for whoever reads it.
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
inline const Rule kNegativeOverride{"negative size or rank as an override",
                                    "the peer stores it and answers with it"};
inline const Rule kOtherBackEnd{"back end that is neither Gloo nor NCCL",
                                "the peer hands any name on to PyTorch"};
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
inline const Rule kUnknownDataParallelType{"unknown data parallel type",
                                           "the peer takes any text for fsdp"};
inline const Rule kNegativeDegree{"negative degree",
                                  "the peer's own message asks for at least 1, but its check lets "
                                  "divisors with a minus sign through"};
inline const Rule kDegreesDoNotCover{
    "replicas times shards are not the data parallel world",
    "the peer leaves ranks outside the mesh, where they fail later; ours refuses on all"};
inline const Rule kUnreachableSubMesh{
    "sub-mesh beside a flattened dimension",
    "the peer looks for a name where it is not registered and fails; ours gives the sub-mesh"};
inline const Rule kStageRankOutOfRange{"rank outside the pipeline",
                                       "the peer answers with stages that do not exist"};
inline const Rule kNoStages{"pipeline without stages", "the peer shares out nothing"};
inline const Rule kSplitPointsOutOfOrder{
    "split points that do not rise from 0 to the number of layers",
    "the peer takes them as they are and builds stages with missing or repeated layers"};
inline const Rule kSizeOfAnotherType{"size that is no whole number",
                                     "the peer silently takes it for 1; C++ has no such call"};
inline const Rule kAxesApart{
    "sub-mesh of axes that lie apart",
    "the peer fails where no flattened axis happens to hold them all; ours puts them side by side"};
inline const Rule kGroupsInTheMeshsOrder{
    "unsorted list of ranks",
    "the peer sorts groups, so that a rank in a group is not its coordinate; ours keeps the order"};

inline const Rule kPublishedTable{
    "published table that differs from what runs",
    "the peer's attribute is shifted on the last rank; ours publishes what runs"};
inline const Rule kCountedTable{
    "table with repeated actions or with microbatches beyond their number",
    "the peer counts different actions alone, so that one may stand twice and another not at all"};
inline const Rule kTextBehindAction{"text behind a complete action",
                                    "the peer reads a beginning and ignores the rest"};
inline const Rule kLargeNumber{"stage or microbatch from 2^31 up",
                               "the peer's numbers have no limit; a table of ours holds 32 bits"};
inline const Rule kNotAscii{"white space or digits outside ASCII in an action",
                            "the peer takes all of Unicode; tables of ours are ASCII"};
inline const Rule kBatchText{"batch in braces",
                             "the peer has no text for a batch; ours reads what it writes"};
inline const Rule kHalfAction{
    "action with a part too few or too many",
    "the peer reads a forward without a microbatch, a gather with one, an overlap of nothing or of "
    "two forwards"};

inline const Rule kUnevenMicrobatches{
    "uneven microbatches",
    "the peer fails across ranks, and in one process lets small microbatches count as much as "
    "large ones; ours equals the step of one process"};
inline const Rule kGradientsScaledTwice{
    "gradients of several steps", "the peer scales those of earlier steps again; ours are the sum"};

inline const Rule kTensorRankOutOfRange{
    "rank outside the tensor-parallel group",
    "the peer answers with a part of the vocabulary that does not exist"};
inline const Rule kEmptyLastDimension{"empty last dimension",
                                      "the peer gives one part, whatever number is asked for"};
inline const Rule kFlatRemainder{"flat chunks with a remainder",
                                 "the peer gives the last elements to no rank"};
inline const Rule kUnequalHeadGroups{
    "query heads that are no multiple of the key-value heads",
    "the peer's config accepts them; no query head would know its key-value head"};
inline const Rule kSequenceParallelOnOneRank{
    "sequence parallel on one rank", "the peer refuses; for ours there is nothing to shard"};
inline const Rule kMeanLoss{"vocabulary-parallel cross-entropy",
                            "ours is the mean over positions; both sums share one all-reduce, and "
                            "one rank sends nothing"};

inline const Rule kOneContextRank{
    "sequence on one context-parallel rank",
    "the peer cuts it in two chunks all the same; for ours any length is whole"};
inline const Rule kUnequalContextPieces{
    "sequence that does not divide over the context-parallel ranks",
    "the peer gives them unequal pieces, which its ring cannot exchange"};
inline const Rule kDocumentByDocument{
    "packed documents on context-parallel ranks",
    "the peer lists them one after the other and cuts the list, which loses the balance; ours "
    "gives each rank two chunks of every document"};
inline const Rule kDocumentRemainders{
    "documents that are no multiples of twice the ranks",
    "the peer refuses them; ours divides what is left of them together"};
inline const Rule kEmptyDocument{"document without positions",
                                 "the peer hands attention an empty document"};
inline const Rule kBlockRemainder{"sequence that is no multiple of the block",
                                  "the peer counts positions beyond the end"};
inline const Rule kPaddingSubtracted{
    "llama3 documents that need padding",
    "the peer subtracts the padding, so that tokens are lost or it fails; ours appends a document "
    "of padding, or refuses without a padding value"};
inline const Rule kFewKeyValueHeads{
    "fewer key-value heads than Ulysses has ranks",
    "the peer fails; ours gives the ranks copies of their key-value head"};
inline const Rule kAddedTokenId{
    "added token whose id is not the one that it gets",
    "the peer ignores the file's id and gives another; ours refuses the file"};

// Each gives the rule by which ours refuses an input that the peer takes; null where none does.

/// Sizes, degrees and the like, one or a list; null is a default.
const Rule* of_size(const Json& size);
/// The order of axes, "tp-cp-ep-dp-pp".
const Rule* of_order(const std::string& order);
/// Global ranks of a world of this size.
const Rule* of_rank_list(const Json& ranks, int64_t world);
/// Flat spans [[[begin, end], …] for each rank] on so many ranks; null is the default sharding.
const Rule* of_spans(const Json& offsets, int64_t num_ranks);
/// The text of a pipeline's action.
const Rule* of_action(const std::string& text);
/// A tokenizer.json.
const Rule* of_added_tokens(const Json& tokenizer);

}  // namespace tessera::golden::rules
