// Of each channel and minute the number of bids, and of distinct bidders and auctions.
//
//     distinct BIDS ANSWERS
//
// Two sets for all channels: of a channel's number and a bidder, and of a channel's number and an auction. Answers are lines
// `channel,bids,bidders,auctions`.
#include "bids.h"

typedef struct { Text name; uint64_t bids, bidders, auctions; } Channel;
typedef struct { Channel *channels; uint32_t *slots; uint32_t used, room; int bits; } Channels;
typedef struct { Text text; uint64_t channel; } Member; // a channel's number; they begin with 1
typedef struct { Member *members; uint64_t used; int bits; } Texts;
typedef struct { uint64_t *members; uint64_t used; int bits; } Numbers; // channel << 40 | auction

static uint32_t *slot_of(const Channels *channels, Text name) {
    uint32_t at = hash_text(name) >> (64 - channels->bits), mask = (1u << channels->bits) - 1, found;
    while ((found = channels->slots[at]) && channels->channels[found - 1].name != name) at = (at + 1) & mask;
    return channels->slots + at;
}

static uint32_t number_of(Channels *channels, Text name) {
    uint32_t *slot = slot_of(channels, name);
    if (*slot) return *slot;
    if (channels->used == channels->room) {
        channels->room *= 2;
        channels->channels = realloc(channels->channels, channels->room * sizeof(Channel));
        if (!channels->channels) die("memory");
        free(channels->slots);
        channels->slots = touched(4ull << ++channels->bits);
        for (uint32_t i = 0; i < channels->used; i++) *slot_of(channels, channels->channels[i].name) = i + 1;
        slot = slot_of(channels, name);
    }
    channels->channels[channels->used] = (Channel){name, 0, 0, 0};
    return *slot = ++channels->used;
}

static bool add_text(Texts *set, uint64_t channel, Text text) {
    if (2 * (set->used + 1) > 1ull << set->bits) {
        Texts larger = {touched(sizeof(Member) << (set->bits + 1)), 0, set->bits + 1};
        for (uint64_t i = 0; i < 1ull << set->bits; i++)
            if (set->members[i].channel) add_text(&larger, set->members[i].channel, set->members[i].text);
        free(set->members);
        *set = larger;
    }
    uint64_t at = hash_number(hash_text(text) ^ channel) >> (64 - set->bits), mask = (1ull << set->bits) - 1;
    for (; set->members[at].channel; at = (at + 1) & mask)
        if (set->members[at].channel == channel && set->members[at].text == text) return false;
    set->members[at] = (Member){text, channel};
    set->used++;
    return true;
}

static bool add_number(Numbers *set, uint64_t member) {
    if (2 * (set->used + 1) > 1ull << set->bits) {
        Numbers larger = {touched(8ull << (set->bits + 1)), 0, set->bits + 1};
        for (uint64_t i = 0; i < 1ull << set->bits; i++)
            if (set->members[i]) add_number(&larger, set->members[i]);
        free(set->members);
        *set = larger;
    }
    uint64_t at = hash_number(member ^ member >> 32) >> (64 - set->bits), mask = (1ull << set->bits) - 1;
    for (; set->members[at]; at = (at + 1) & mask)
        if (set->members[at] == member) return false;
    set->members[at] = member;
    set->used++;
    return true;
}

static uint64_t close_window(Channels *channels, Texts *bidders, Numbers *auctions, Out *out) {
    uint64_t answers = channels->used;
    for (uint32_t i = 0; i < channels->used; i++) {
        const Channel *channel = channels->channels + i;
        char *start = room(out, 128), *to = put_text(start, channel->name);
        *to++ = ',';
        to = field(to, channel->bids, ',');
        to = field(to, channel->bidders, ',');
        to = field(to, channel->auctions, '\n');
        out->used += to - start;
    }
    memset(channels->slots, 0, 4ull << channels->bits);
    memset(bidders->members, 0, sizeof(Member) << bidders->bits);
    memset(auctions->members, 0, 8ull << auctions->bits);
    channels->used = bidders->used = auctions->used = 0;
    return answers;
}

static Result distinct(File bids, Out *out) {
    Channels channels = {touched(512 * sizeof(Channel)), touched(4 << 10), 0, 512, 10};
    Texts bidders = {touched(sizeof(Member) << 10), 0, 10};
    Numbers auctions = {touched(8 << 10), 0, 10};
    Result result = {0};
    int64_t window_end = INT64_MIN;
    for (const char *at = bids.bytes, *end = at + bids.size; at < end; result.records++) {
        Bid bid;
        Text name;
        at = line_after(read_text(read_bid(at, &bid), &name), end);
        if (bid.ms >= window_end) {
            result.answers += close_window(&channels, &bidders, &auctions, out);
            window_end = bid.ms / WINDOW_MS * WINDOW_MS + WINDOW_MS;
        }
        uint64_t number = number_of(&channels, name);
        Channel *channel = channels.channels + number - 1;
        channel->bids++;
        channel->bidders += add_text(&bidders, number, bid.bidder);
        channel->auctions += add_number(&auctions, number << 40 | (uint64_t)bid.auction);
    }
    result.answers += close_window(&channels, &bidders, &auctions, out);
    return result;
}

int main(int count, char **argument) {
    if (count != 3) { fputs("distinct: expected BIDS ANSWERS\n", stderr); return 2; }
    File bids = mapped(argument[1]);
    Out out = opened(argument[2]);
    Moment start = moment();
    Result result = distinct(bids, &out);
    flush(&out);
    close(out.file);
    say("distinct", result, start, moment());
    return 0;
}
