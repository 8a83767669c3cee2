// What the references over bids share. A line is `ms,auction,bidder,price,channel,url`, in the order of ms; bidder and channel have at most
// 15 bytes. Files are mapped and their pages touched before the clock starts; tables begin small, grow within it, and are kept from window
// to window.
#pragma once
#include "reference.h"

enum { WINDOW_MS = 60000 };

typedef unsigned __int128 Text; // up to 15 bytes, zeros behind them: its bytes are compared at once

typedef struct { int64_t ms, auction, price; Text bidder; } Bid;

// A url is behind every text: 16 bytes may be read.
static inline const char *read_text(const char *at, Text *text) {
    int length = 0;
    while (at[length] != ',') length++;
    if (length > 15) { fprintf(stderr, "a text of %d bytes, expected at most 15\n", length); exit(2); }
    memcpy(text, at, 16);
    *text &= ((Text)1 << 8 * length) - 1;
    return at + length + 1;
}

static inline char *put_text(char *to, Text text) {
    memcpy(to, &text, 16);
    while (*to) to++;
    return to;
}

static inline const char *read_bid(const char *at, Bid *bid) {
    at = read_number(at, &bid->ms);
    at = read_number(at, &bid->auction);
    at = read_text(at, &bid->bidder);
    return read_number(at, &bid->price);
}

static inline uint64_t hash_number(uint64_t key) { return key * 0x9E3779B97F4A7C15u; }

static inline uint64_t hash_text(Text text) {
    uint64_t mixed = ((uint64_t)text ^ (uint64_t)(text >> 64) * 0xBF58476D1CE4E5B9u) * 0x94D049BB133111EBu;
    return hash_number(mixed ^ mixed >> 32);
}
// The place in a table of 2^bits is a hash's upper bits: `hash >> 64 - bits`.
