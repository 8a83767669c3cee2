// The last bid of each bidder and minute.
//
//     keep_last BIDS ANSWERS
//
// Answers are lines `ms,auction,bidder,price`.
#include "bids.h"

typedef struct { Bid *bids; uint32_t *slots; uint32_t used, room; int bits; } Table;

static uint32_t *slot_of(const Table *table, Text bidder) {
    uint32_t at = hash_text(bidder) >> (64 - table->bits), mask = (1u << table->bits) - 1, found;
    while ((found = table->slots[at]) && table->bids[found - 1].bidder != bidder) at = (at + 1) & mask;
    return table->slots + at;
}

static void grow(Table *table) {
    table->room *= 2;
    table->bids = realloc(table->bids, table->room * sizeof(Bid));
    if (!table->bids) die("memory");
    free(table->slots);
    table->slots = touched(4ull << ++table->bits);
    for (uint32_t i = 0; i < table->used; i++) *slot_of(table, table->bids[i].bidder) = i + 1;
}

static void take(Table *table, const Bid *bid) {
    uint32_t *slot = slot_of(table, bid->bidder);
    if (!*slot) {
        if (table->used == table->room) {
            grow(table);
            slot = slot_of(table, bid->bidder);
        }
        *slot = ++table->used;
    }
    table->bids[*slot - 1] = *bid;
}

static uint64_t close_window(Table *table, Out *out) {
    uint64_t answers = table->used;
    for (uint32_t i = 0; i < table->used; i++) {
        const Bid *bid = table->bids + i;
        char *start = room(out, 128), *to = start;
        to = field(to, bid->ms, ',');
        to = field(to, bid->auction, ',');
        to = put_text(to, bid->bidder); *to++ = ',';
        to = field(to, bid->price, '\n');
        out->used += to - start;
    }
    memset(table->slots, 0, 4ull << table->bits);
    table->used = 0;
    return answers;
}

static Result last(File bids, Out *out) {
    Table table = {touched(512 * sizeof(Bid)), touched(4 << 10), 0, 512, 10};
    Result result = {0};
    int64_t window_end = INT64_MIN;
    for (const char *at = bids.bytes, *end = at + bids.size; at < end; result.records++) {
        Bid bid;
        at = line_after(read_bid(at, &bid), end);
        if (bid.ms >= window_end) {
            result.answers += close_window(&table, out);
            window_end = bid.ms / WINDOW_MS * WINDOW_MS + WINDOW_MS;
        }
        take(&table, &bid);
    }
    result.answers += close_window(&table, out);
    return result;
}

int main(int count, char **argument) {
    if (count != 3) { fputs("keep_last: expected BIDS ANSWERS\n", stderr); return 2; }
    File bids = mapped(argument[1]);
    Out out = opened(argument[2]);
    Moment start = moment();
    Result result = last(bids, &out);
    flush(&out);
    close(out.file);
    say("keep-last", result, start, moment());
    return 0;
}
