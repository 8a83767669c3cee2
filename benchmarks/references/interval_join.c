// Bids and updates of the same auction at most ten seconds apart: a hash join of two files that are merged by time.
//
//     interval_join BIDS UPDATES ANSWERS
//
// An auction has one entry in a table of open addressing: its last bid and its last update. A row knows the one of its side before it,
// and lies in a ring from which the oldest leave. Answers are lines `ms,auction,bidder,price,reserve`.
#include "bids.h"

static const int64_t SPAN_MS = 10000;

typedef struct { int64_t ms, value, before; Text bidder; } Row; // a bid's price or an update's reserve; no number is below 1
typedef struct { Row *rows; int64_t mask, first, next; } Ring;
typedef struct { int64_t auction, last[2]; } Entry; // last[0] is 0 for no bid, both are for an empty place
typedef struct { Entry *entries; int bits; uint64_t used; } Table;
typedef struct { const char *at, *end; bool there; int64_t auction; Row row; } Reader; // the row is the next one, if there is one

static Ring ring_of(int64_t size) { return (Ring){touched(size * sizeof(Row)), size - 1, 1, 1}; }

static Entry *place_of(const Table *table, int64_t auction) {
    uint64_t at = hash_number(auction) >> (64 - table->bits), mask = (1ull << table->bits) - 1;
    for (;; at = (at + 1) & mask) {
        Entry *entry = table->entries + at;
        if (entry->auction == auction || !(entry->last[0] | entry->last[1])) return entry;
    }
}

static Entry *entry_of(Table *table, int64_t auction) {
    Entry *entry = place_of(table, auction);
    if (entry->last[0] | entry->last[1]) return entry;
    if (2 * ++table->used > 1ull << table->bits) {
        Table larger = {touched(sizeof(Entry) << (table->bits + 1)), table->bits + 1, table->used};
        for (Entry *each = table->entries, *end = each + (1ull << table->bits); each < end; each++)
            if (each->last[0] | each->last[1]) *place_of(&larger, each->auction) = *each;
        free(table->entries);
        *table = larger;
        entry = place_of(table, auction);
    }
    entry->auction = auction;
    return entry;
}

static int64_t keep(Ring *ring, Row row) {
    while (ring->first < ring->next && ring->rows[ring->first & ring->mask].ms < row.ms - SPAN_MS) ring->first++;
    if (ring->next - ring->first > ring->mask) {
        Ring larger = {touched(2 * (ring->mask + 1) * sizeof(Row)), 2 * ring->mask + 1, ring->first, ring->next};
        for (int64_t at = ring->first; at < ring->next; at++) larger.rows[at & larger.mask] = ring->rows[at & ring->mask];
        free(ring->rows);
        *ring = larger;
    }
    ring->rows[ring->next & ring->mask] = row;
    return ring->next++;
}

static void answer(Out *out, int64_t auction, const Row *bid, int64_t reserve) {
    char *start = room(out, 128), *to = start;
    to = field(to, bid->ms, ',');
    to = field(to, auction, ',');
    to = put_text(to, bid->bidder); *to++ = ',';
    to = field(to, bid->value, ',');
    to = field(to, reserve, '\n');
    out->used += to - start;
}

// Meets the rows of the other side that are there, and stays for those that come. Side 0 are bids.
static uint64_t meet(int side, Table *table, Ring rings[2], int64_t auction, Row row, Out *out) {
    Entry *entry = entry_of(table, auction);
    const Ring *other = rings + !side;
    uint64_t met = 0;
    for (int64_t number = entry->last[!side]; number >= other->first; met++) {
        const Row *found = other->rows + (number & other->mask);
        if (found->ms < row.ms - SPAN_MS) break;
        if (side) answer(out, auction, found, row.value); else answer(out, auction, &row, found->value);
        number = found->before;
    }
    row.before = entry->last[side];
    entry->last[side] = keep(rings + side, row);
    return met;
}

static void next_bid(Reader *bids) {
    if (!(bids->there = bids->at < bids->end)) return;
    Bid bid;
    bids->at = line_after(read_bid(bids->at, &bid), bids->end);
    bids->auction = bid.auction;
    bids->row = (Row){bid.ms, bid.price, 0, bid.bidder};
}

static void next_update(Reader *updates) {
    if (!(updates->there = updates->at < updates->end)) return;
    Row *row = &updates->row;
    const char *behind = read_number(read_number(read_number(updates->at, &row->ms), &updates->auction), &row->value);
    updates->at = line_after(behind, updates->end);
}

static Result join(File bids, File updates, Out *out) {
    Table table = {touched(sizeof(Entry) << 10), 10, 0};
    Ring rings[2] = {ring_of(1024), ring_of(1024)};
    Reader readers[2] = {{.at = bids.bytes, .end = bids.bytes + bids.size}, {.at = updates.bytes, .end = updates.bytes + updates.size}};
    Result result = {0};
    next_bid(readers);
    next_update(readers + 1);
    for (; readers[0].there || readers[1].there; result.records++) {
        bool side = !readers[0].there || (readers[1].there && readers[1].row.ms < readers[0].row.ms);
        result.answers += meet(side, &table, rings, readers[side].auction, readers[side].row, out);
        if (side) next_update(readers + 1); else next_bid(readers);
    }
    return result;
}

int main(int count, char **argument) {
    if (count != 4) { fputs("interval_join: expected BIDS UPDATES ANSWERS\n", stderr); return 2; }
    File bids = mapped(argument[1]), updates = mapped(argument[2]);
    Out out = opened(argument[3]);
    Moment start = moment();
    Result result = join(bids, updates, &out);
    flush(&out);
    close(out.file);
    say("interval-join", result, start, moment());
    return 0;
}
