// A pattern as an automaton written for it by hand: a ring of open starts for each key, all of which it keeps.
//
//     pattern together N [skewed]      an a, then a b, then a c, of one key, within a tenth of a second; behind a match it begins anew
//     pattern apart N [skewed]        an a, then a b of more than twice its value, within as long; every a may begin a match
//
// Rows are drawn before the clock starts: 10,000 keys, a row each microsecond. The last line of stdout is JSON: `answers` are matches, `sum`
// is of the values of their first and last rows.
#include "reference.h"

enum { KEYS = 10000, OCTAVES = 14, KINDS = 3, VALUES = 1000, ROOM_AT_FIRST = 4 };
static const int64_t WITHIN_US = 100000;

typedef struct { int64_t time, value; } Start;
typedef struct { Start *ring; int64_t key, mask, first, behind_b, next; } Starts;
typedef struct { int64_t *key, *kind, *value, *time; } Columns;

static uint64_t drawn(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline Starts *starts_of(Starts *table, uint64_t mask, int64_t key) {
    uint64_t place = drawn(key) & mask;
    while (table[place].ring && table[place].key != key) place = (place + 1) & mask;
    Starts *found = table + place;
    if (!found->ring) *found = (Starts){touched(ROOM_AT_FIRST * sizeof(Start)), key, ROOM_AT_FIRST - 1, 0, 0, 0};
    return found;
}

static inline void leave_behind(Starts *of, int64_t time) {
    while (of->first < of->next && of->ring[of->first & of->mask].time + WITHIN_US < time) of->first++;
}

static inline void begin(Starts *of, int64_t time, int64_t value) {
    if (of->next - of->first > of->mask) {
        int64_t mask = 2 * of->mask + 1;
        Start *larger = touched((mask + 1) * sizeof(Start));
        for (int64_t at = of->first; at < of->next; at++) larger[at & mask] = of->ring[at & of->mask];
        free(of->ring);
        of->ring = larger, of->mask = mask;
    }
    of->ring[of->next++ & of->mask] = (Start){time, value};
}

static Result together(Columns rows, uint64_t count, Starts *table, uint64_t mask) {
    Result result = {count, 0, 0};
    for (uint64_t i = 0; i < count; i++) {
        Starts *of = starts_of(table, mask, rows.key[i]);
        leave_behind(of, rows.time[i]);
        if (rows.kind[i] == 0) begin(of, rows.time[i], rows.value[i]);
        else if (rows.kind[i] == 1) of->behind_b = of->next; // all that are open have their b now
        else if (of->first < of->behind_b) {
            result.answers++, result.sum += of->ring[of->first & of->mask].value + rows.value[i];
            of->first = of->behind_b = of->next;
        }
    }
    return result;
}

static Result apart(Columns rows, uint64_t count, Starts *table, uint64_t mask) {
    Result result = {count, 0, 0};
    for (uint64_t i = 0; i < count; i++) {
        Starts *of = starts_of(table, mask, rows.key[i]);
        leave_behind(of, rows.time[i]);
        if (rows.kind[i] == 0) begin(of, rows.time[i], rows.value[i]);
        if (rows.kind[i] != 1) continue;
        int64_t kept = of->first;
        for (int64_t at = of->first; at < of->next; at++) {
            Start start = of->ring[at & of->mask];
            if (rows.value[i] > 2 * start.value) result.answers++, result.sum += start.value + rows.value[i];
            else of->ring[kept++ & of->mask] = start;
        }
        of->next = kept;
    }
    return result;
}

// Skewed: keys are in octaves of twice as many each, of which each is drawn as often, so that the n-th has about 1/n of the rows.
static int64_t key_of(uint64_t x, bool skewed) {
    uint64_t octave = 1ull << x % OCTAVES;
    return skewed ? octave - 1 + (x >> 8) % octave : x % KEYS;
}

int main(int count, char **argument) {
    bool skewed = count == 4 && !strcmp(argument[3], "skewed");
    const char *question = count == 3 || skewed ? argument[1] : "";
    bool one = !strcmp(question, "together");
    if (!one && strcmp(question, "apart")) return fputs("pattern: expected together N [skewed], or apart N [skewed]\n", stderr), 2;
    uint64_t n = strtoull(argument[2], 0, 10), mask = 32767;
    Columns rows = {touched(8 * n), touched(8 * n), touched(8 * n), touched(8 * n)};
    for (uint64_t i = 0; i < n; i++) {
        rows.key[i] = key_of(drawn(3 * i), skewed), rows.kind[i] = drawn(3 * i + 1) % KINDS;
        rows.value[i] = drawn(3 * i + 2) % VALUES, rows.time[i] = i;
    }
    Starts *table = touched((mask + 1) * sizeof(Starts));
    Moment start = moment();
    Result result = one ? together(rows, n, table, mask) : apart(rows, n, table, mask);
    say(question, result, start, moment());
    return 0;
}
