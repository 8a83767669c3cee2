// The physical limit: what one core can do with the same records when somebody writes the program for that one question by hand.
//
//     limit winS-text CSV ANSWERS GROUPS     first, last and count per 30 s window and address; one window is open at a time
//     limit winS-bin TIMES ADDRESSES ANSWERS GROUPS     the same from int64 milliseconds and uint32 addresses
//     limit id-text CSV COPY                 every line as it is
//     limit wc-text CSV COUNTS GROUPS        the running count of each line's address, an int64 for each line
//     limit maps N                           50 maps x -> x * 0.5 + 1.0 over N doubles, in one loop, as the compiler makes it
//     limit maps-blocked N                   the same by hand, 64 doubles at a time, so that no addition waits for another
//     limit adds N                           50 maps x -> x + 1 over N int64, which the compiler folds into one
//     limit trailing N                       count, sum, least and greatest of the ten minutes up to each of N rows of 10,000 keys
//
// A line begins with milliseconds in 13 digits, a comma, and an address a.b.c.d; times do not go back. GROUPS is how many groups a window
// (or the file) may have; the table is made for them before the clock starts. Also before it: files are mapped and their pages touched,
// arrays are allocated and written once. Inside it: everything else, the writing of the answers too. The last line of stdout is JSON.
#include "reference.h"

enum { WINDOW_MS = 30000, MAPS = 50, TIME_DIGITS = 13 };

typedef struct { uint32_t address; uint32_t count; int64_t first, last; } Group;
typedef struct { Group *groups; uint32_t *slots; uint32_t used, mask; int shift; } Table;

static void write_groups(Out *out, const Table *table) {
    for (uint32_t i = 0; i < table->used; i++) {
        const Group *group = &table->groups[i];
        char *start = room(out, 96), *to = start;
        for (int byte = 3; byte >= 0; byte--) {
            to = number(to, group->address >> 8 * byte & 255);
            *to++ = byte ? '.' : ',';
        }
        to = number(to, group->first); *to++ = ',';
        to = number(to, group->last); *to++ = ',';
        to = number(to, group->count); *to++ = '\n';
        out->used += to - start;
    }
}

// --- groups: dense, with an index of open addressing beside them; half of it stays empty ------------------------------

static Table made_for(uint64_t groups) {
    int bits = 4;
    while (1ull << bits < 2 * groups) bits++;
    if (bits > 31) { fputs("GROUPS: expected at most 2^30\n", stderr); exit(2); }
    return (Table){touched(sizeof(Group) * groups), touched(4ull << bits), 0, (1u << bits) - 1, 64 - bits};
}

static inline uint32_t *slot_of(const Table *table, uint32_t address) {
    uint32_t at = address * 0x9E3779B97F4A7C15ull >> table->shift;
    uint32_t number;
    while ((number = table->slots[at]) && table->groups[number - 1].address != address) at = (at + 1) & table->mask;
    return &table->slots[at];
}

// The count of that address, this visit included.
static inline uint32_t count_visit(Table *table, uint64_t groups, int64_t time, uint32_t address) {
    uint32_t *slot = slot_of(table, address);
    if (*slot) { // times do not go back: `first` stands
        Group *group = &table->groups[*slot - 1];
        group->last = time;
        return ++group->count;
    }
    if (table->used == groups) { fprintf(stderr, "more groups than GROUPS, %lu\n", groups); exit(2); }
    table->groups[table->used] = (Group){address, 1, time, time};
    *slot = ++table->used;
    return 1;
}

static uint64_t close_window(Table *table, Out *out) {
    uint64_t groups = table->used;
    write_groups(out, table);
    memset(table->slots, 0, 4ull * (table->mask + 1));
    table->used = 0;
    return groups;
}

// --- text -------------------------------------------------------------------------------------------------------------

static inline const char *read_address(const char *at, uint32_t *address) {
    uint32_t value = 0, byte = 0;
    for (;;) {
        unsigned character = (unsigned char)*at++;
        if (character - '0' < 10) { byte = byte * 10 + (character - '0'); continue; }
        value = value << 8 | byte;
        byte = 0;
        if (character != '.') break;
    }
    *address = value;
    return at;
}

// --- the questions ----------------------------------------------------------------------------------------------------

static Result window_text(File file, Out *out, Table *table, uint64_t groups) {
    Result result = {0};
    int64_t window_end = INT64_MIN;
    for (const char *at = file.bytes, *end = at + file.size; at < end; result.records++) {
        int64_t time;
        uint32_t address;
        at = read_address(read_number(at, &time), &address);
        if (time >= window_end) {
            result.answers += close_window(table, out);
            window_end = time / WINDOW_MS * WINDOW_MS + WINDOW_MS;
        }
        count_visit(table, groups, time, address);
        at = line_after(at, end);
    }
    result.answers += close_window(table, out);
    return result;
}

static Result window_columns(File times, File addresses, Out *out, Table *table, uint64_t groups) {
    Result result = {times.size / 8, 0, 0};
    const int64_t *time = (const int64_t *)times.bytes;
    const uint32_t *address = (const uint32_t *)addresses.bytes;
    int64_t window_end = INT64_MIN;
    for (uint64_t i = 0; i < result.records; i++) {
        if (time[i] >= window_end) {
            result.answers += close_window(table, out);
            window_end = time[i] / WINDOW_MS * WINDOW_MS + WINDOW_MS;
        }
        count_visit(table, groups, time[i], address[i]);
    }
    result.answers += close_window(table, out);
    return result;
}

static Result identity(File file, Out *out) {
    Result result = {0};
    for (const char *at = file.bytes, *end = at + file.size; at < end; result.records++) {
        const char *next = line_after(at, end);
        memcpy(room(out, next - at), at, next - at);
        out->used += next - at;
        at = next;
    }
    result.answers = result.records;
    return result;
}

// Counts are gathered in a block of their own: the compiler need not fear that writing one changes anything else.
static Result running_count(File file, Out *out, Table *table, uint64_t groups) {
    enum { BLOCK = OUT_BYTES / 8 };
    int64_t *counts = (int64_t *)out->bytes;
    uint64_t filled = 0;
    Result result = {0};
    for (const char *at = file.bytes, *end = at + file.size; at < end; result.records++) {
        uint32_t address;
        at = line_after(read_address(at + TIME_DIGITS + 1, &address), end);
        int64_t count = count_visit(table, groups, 0, address);
        result.sum += count;
        counts[filled++] = count;
        if (filled == BLOCK) {
            out->used = OUT_BYTES;
            flush(out);
            filled = 0;
        }
    }
    out->used = 8 * filled;
    result.answers = result.records;
    return result;
}

typedef double Lanes __attribute__((vector_size(64)));

// Not inlined: the compiler then knows that the arrays do not overlap, and takes eight doubles at a time.
__attribute__((noinline)) static void maps(const double *restrict from, double *restrict to, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        double value = from[i];
        for (int map = 0; map < MAPS; map++) value = value * 0.5 + 1.0;
        to[i] = value;
    }
}

// Eight registers of eight lanes: a map takes as long as its additions take to issue, not to finish.
static void maps_blocked(const double *from, double *to, uint64_t count) {
    enum { REGISTERS = 8, BLOCK = REGISTERS * 8 };
    Lanes block[REGISTERS];
    uint64_t i = 0;
    for (; i + BLOCK <= count; i += BLOCK) {
        memcpy(block, from + i, sizeof block);
        for (int map = 0; map < MAPS; map++)
            for (int r = 0; r < REGISTERS; r++) block[r] = block[r] * 0.5 + 1.0;
        memcpy(to + i, block, sizeof block);
    }
    maps(from + i, to + i, count - i);
}

static void adds(const int64_t *restrict from, int64_t *restrict to, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) to[i] = from[i] + MAPS;
}

// --- trailing windows: two stacks, one behind the other in a ring for each key --------------------------------------------------------------

enum { KEYS = 10000, STEP_US = 1200 };
static const int64_t SPAN_US = 600000000;

typedef struct { int64_t time, count, least, greatest; __int128 sum; } State;
typedef struct { State *ring, back; int64_t key, mask, first, flip, next; } Ring;
typedef struct { int64_t *key, *time, *value, *counts, *sums, *least, *greatest; } Columns;

static uint64_t drawn(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline void add(State *state, int64_t value) {
    state->count++;
    state->sum += value;
    if (value < state->least) state->least = value;
    if (value > state->greatest) state->greatest = value;
}

static inline void merge(State *state, const State *other) {
    state->count += other->count;
    state->sum += other->sum;
    if (other->least < state->least) state->least = other->least;
    if (other->greatest > state->greatest) state->greatest = other->greatest;
}

static State empty(int64_t time) { return (State){time, 0, INT64_MAX, INT64_MIN, 0}; }

static inline Ring *ring_of(Ring *rings, uint64_t mask, int64_t key) {
    uint64_t place = drawn(key) & mask;
    while (rings[place].ring && rings[place].key != key) place = (place + 1) & mask;
    Ring *found = rings + place;
    if (!found->ring) *found = (Ring){touched(2 * sizeof(State)), empty(0), key, 1, 0, 0, 0};
    return found;
}

static inline void take(Ring *ring, int64_t time, int64_t value) {
    int64_t first = ring->first;
    while (first < ring->next && ring->ring[first & ring->mask].time < time - SPAN_US) first++;
    ring->first = first;
    if (first > ring->flip) {
        for (int64_t at = ring->next - 2; at >= first; at--) merge(ring->ring + (at & ring->mask), ring->ring + ((at + 1) & ring->mask));
        ring->flip = ring->next;
        ring->back = empty(0);
    }
    if (ring->next - first > ring->mask) {
        int64_t mask = 2 * ring->mask + 1;
        State *larger = touched((mask + 1) * sizeof(State));
        for (int64_t at = first; at < ring->next; at++) larger[at & mask] = ring->ring[at & ring->mask];
        free(ring->ring);
        ring->ring = larger, ring->mask = mask;
    }
    State *own = ring->ring + (ring->next++ & ring->mask);
    *own = empty(time);
    add(own, value);
    add(&ring->back, value);
}

static void trailing(uint64_t count, Columns of, Ring *rings, uint64_t mask) {
    for (uint64_t from = 0, to; from < count; from = to) {
        for (to = from; to < count && of.time[to] == of.time[from]; to++) take(ring_of(rings, mask, of.key[to]), of.time[to], of.value[to]);
        for (uint64_t i = from; i < to; i++) {
            Ring *ring = ring_of(rings, mask, of.key[i]);
            State all = ring->back;
            if (ring->first < ring->flip) merge(&all, ring->ring + (ring->first & ring->mask));
            of.counts[i] = all.count, of.sums[i] = all.sum, of.least[i] = all.least, of.greatest[i] = all.greatest;
        }
    }
}

static int usage(void) {
    fputs("limit: expected one of the calls that stand at the head of limit.c\n", stderr);
    return 2;
}

static void compute(const char *question, uint64_t count) {
    bool blocked = !strcmp(question, "maps-blocked"), floats = blocked || !strcmp(question, "maps");
    double *from = touched(8 * count), *to = touched(8 * count);
    int64_t *whole = (int64_t *)from;
    for (uint64_t i = 0; i < count; i++)
        if (floats) from[i] = i; else whole[i] = i;
    Moment start = moment();
    if (blocked) maps_blocked(from, to, count);
    else if (floats) maps(from, to, count);
    else adds(whole, (int64_t *)to, count);
    Moment end = moment();
    Result result = {count, count, 0};
    for (uint64_t i = 0; i < count; i++) result.sum += floats ? (uint64_t)(to[i] * 1024) : (uint64_t)((int64_t *)to)[i];
    say(question, result, start, end);
}

static void slide(const char *question, uint64_t count) {
    int64_t *memory[7];
    for (int i = 0; i < 7; i++) memory[i] = touched(8 * count);
    Columns of = {memory[0], memory[1], memory[2], memory[3], memory[4], memory[5], memory[6]};
    int64_t time = 0;
    for (uint64_t i = 0; i < count; i++) {
        of.key[i] = drawn(3 * i) % KEYS;
        of.time[i] = time += drawn(3 * i + 1) % STEP_US;
        of.value[i] = (int64_t)(drawn(3 * i + 2) % 2000001) - 1000000;
    }
    uint64_t mask = 32767;
    Ring *rings = touched((mask + 1) * sizeof(Ring));
    Moment start = moment();
    trailing(count, of, rings, mask);
    Moment end = moment();
    Result result = {count, count, 0};
    for (uint64_t i = 0; i < count; i++) result.sum += (uint64_t)of.counts[i] + 3 * (uint64_t)of.sums[i] + 5 * (uint64_t)of.least[i] + 7 * (uint64_t)of.greatest[i];
    say(question, result, start, end);
}

int main(int count, char **argument) {
    const char *question = count > 1 ? argument[1] : "";
    bool computed = !strcmp(question, "maps") || !strcmp(question, "maps-blocked") || !strcmp(question, "adds");
    if (count == 3 && computed) return compute(question, strtoull(argument[2], 0, 10)), 0;
    if (count == 3 && !strcmp(question, "trailing")) return slide(question, strtoull(argument[2], 0, 10)), 0;
    bool text = !strcmp(question, "winS-text"), columns = !strcmp(question, "winS-bin");
    bool copy = !strcmp(question, "id-text"), running = !strcmp(question, "wc-text");
    if (!(count == 5 && (text || running)) && !(count == 6 && columns) && !(count == 4 && copy)) return usage();
    File file = mapped(argument[2]), second = columns ? mapped(argument[3]) : (File){0};
    Out out = opened(argument[columns ? 4 : 3]);
    uint64_t groups = copy ? 1 : strtoull(argument[count - 1], 0, 10);
    Table table = made_for(groups);
    Moment start = moment();
    Result result = text      ? window_text(file, &out, &table, groups)
                    : columns ? window_columns(file, second, &out, &table, groups)
                    : copy    ? identity(file, &out)
                              : running_count(file, &out, &table, groups);
    flush(&out);
    close(out.file);
    say(question, result, start, moment());
    return 0;
}
