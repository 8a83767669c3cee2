// The ten highest bids of each auction and minute, the earlier of two of one price before the other.
//
//     top_n BIDS ANSWERS
//
// An auction's group has its ten best in order: a bid that is not above the last of them costs the look-up of its group and a comparison.
// Answers are lines `ms,auction,bidder,price,rank`.
#include "bids.h"

enum { MOST = 10 };

typedef struct { int64_t auction, count; Bid best[MOST]; } Group;
typedef struct { Group *groups; uint32_t *slots; uint32_t used, room; int bits; } Table;

static uint32_t *slot_of(const Table *table, int64_t auction) {
    uint32_t at = hash_number(auction) >> (64 - table->bits), mask = (1u << table->bits) - 1, found;
    while ((found = table->slots[at]) && table->groups[found - 1].auction != auction) at = (at + 1) & mask;
    return table->slots + at;
}

static void grow(Table *table) {
    table->room *= 2;
    table->groups = realloc(table->groups, table->room * sizeof(Group));
    if (!table->groups) die("memory");
    free(table->slots);
    table->slots = touched(4ull << ++table->bits);
    for (uint32_t i = 0; i < table->used; i++) *slot_of(table, table->groups[i].auction) = i + 1;
}

static Group *group_of(Table *table, int64_t auction) {
    uint32_t *slot = slot_of(table, auction);
    if (*slot) return table->groups + *slot - 1;
    if (table->used == table->room) {
        grow(table);
        slot = slot_of(table, auction);
    }
    Group *group = table->groups + table->used;
    group->auction = auction;
    group->count = 0;
    *slot = ++table->used;
    return group;
}

static inline void take(Group *group, const Bid *bid) {
    if (group->count == MOST && bid->price <= group->best[MOST - 1].price) return;
    int64_t at = group->count < MOST ? group->count++ : MOST - 1;
    for (; at && group->best[at - 1].price < bid->price; at--) group->best[at] = group->best[at - 1];
    group->best[at] = *bid;
}

static uint64_t close_window(Table *table, Out *out) {
    uint64_t answers = 0;
    for (uint32_t i = 0; i < table->used; i++) {
        const Group *group = table->groups + i;
        for (int64_t rank = 0; rank < group->count; rank++, answers++) {
            const Bid *bid = group->best + rank;
            char *start = room(out, 128), *to = start;
            to = field(to, bid->ms, ',');
            to = field(to, bid->auction, ',');
            to = put_text(to, bid->bidder); *to++ = ',';
            to = field(to, bid->price, ',');
            to = field(to, rank + 1, '\n');
            out->used += to - start;
        }
    }
    memset(table->slots, 0, 4ull << table->bits);
    table->used = 0;
    return answers;
}

static Result top(File bids, Out *out) {
    Table table = {touched(512 * sizeof(Group)), touched(4 << 10), 0, 512, 10};
    Result result = {0};
    int64_t window_end = INT64_MIN;
    for (const char *at = bids.bytes, *end = at + bids.size; at < end; result.records++) {
        Bid bid;
        at = line_after(read_bid(at, &bid), end);
        if (bid.ms >= window_end) {
            result.answers += close_window(&table, out);
            window_end = bid.ms / WINDOW_MS * WINDOW_MS + WINDOW_MS;
        }
        take(group_of(&table, bid.auction), &bid);
    }
    result.answers += close_window(&table, out);
    return result;
}

int main(int count, char **argument) {
    if (count != 3) { fputs("top_n: expected BIDS ANSWERS\n", stderr); return 2; }
    File bids = mapped(argument[1]);
    Out out = opened(argument[2]);
    Moment start = moment();
    Result result = top(bids, &out);
    flush(&out);
    close(out.file);
    say("top-n", result, start, moment());
    return 0;
}
