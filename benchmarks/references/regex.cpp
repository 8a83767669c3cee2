// Bids whose url has a first folder of three letters and a channel's id, with that id: RE2 itself over each url.
//
//     regex BIDS ANSWERS FOLDER CHANNEL_ID
//
// FOLDER is an expression that has to match somewhere, the second group of CHANNEL_ID is the id. Answers are lines `auction,price,id`.
#include <re2/re2.h>

#include "bids.h"

static Result found(File bids, Out *out, const RE2 &folder, const RE2 &channel_id) {
    Result result = {};
    for (const char *at = bids.bytes, *end = at + bids.size; at < end; result.records++) {
        Bid bid;
        const char *channel = read_bid(at, &bid);
        const char *url = (const char *)memchr(channel, ',', end - channel) + 1;
        at = line_after(url, end);
        re2::StringPiece text(url, at - url - 1), groups[3];
        if (!folder.Match(text, 0, text.size(), RE2::UNANCHORED, nullptr, 0)) continue;
        if (!channel_id.Match(text, 0, text.size(), RE2::UNANCHORED, groups, 3)) continue;
        char *start = room(out, 64 + groups[2].size()), *to = start;
        to = field(to, bid.auction, ',');
        to = field(to, bid.price, ',');
        memcpy(to, groups[2].data(), groups[2].size());
        to += groups[2].size();
        *to++ = '\n';
        out->used += to - start;
        result.answers++;
    }
    return result;
}

int main(int count, char **argument) {
    if (count != 5) { fputs("regex: expected BIDS ANSWERS FOLDER CHANNEL_ID\n", stderr); return 2; }
    File bids = mapped(argument[1]);
    Out out = opened(argument[2]);
    RE2 folder(argument[3]), channel_id(argument[4]);
    if (!folder.ok() || !channel_id.ok()) { fputs("regex: RE2 does not take an expression\n", stderr); return 2; }
    Moment start = moment();
    Result result = found(bids, &out, folder, channel_id);
    flush(&out);
    close(out.file);
    say("regex", result, start, moment());
    return 0;
}
