// What all references share: the clock, files that are mapped, memory that is touched, answers that are written, numbers that are read.
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { OUT_BYTES = 1 << 20 };

typedef struct { const char *bytes; size_t size; } File;
typedef struct { int file; char *bytes; size_t used; } Out;
typedef struct { double wall, cpu, kernel; } Moment;
typedef struct { uint64_t records, answers, sum; } Result;

static void die(const char *what) { perror(what); exit(2); }

static Moment moment(void) {
    struct timespec wall, cpu;
    clock_gettime(CLOCK_MONOTONIC, &wall);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    double kernel = used.ru_stime.tv_sec + used.ru_stime.tv_usec * 1e-6;
    return (Moment){wall.tv_sec + wall.tv_nsec * 1e-9, cpu.tv_sec + cpu.tv_nsec * 1e-9, kernel};
}

static inline File mapped(const char *path) {
    int file = open(path, O_RDONLY);
    struct stat status;
    if (file < 0 || fstat(file, &status)) die(path);
    void *bytes = mmap(0, status.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
    if (bytes == MAP_FAILED) die(path);
    return (File){(const char *)bytes, (size_t)status.st_size};
}

static inline void *touched(size_t size) {
    void *memory = aligned_alloc(64, (size + 63) & ~(size_t)63);
    if (!memory) die("memory");
    return memset(memory, 0, size);
}

// --- answers: a buffer of a megabyte before the file -----------------------------------------------------------------

static inline Out opened(const char *path) {
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (file < 0) die(path);
    return (Out){file, (char *)touched(OUT_BYTES), 0};
}

static inline void flush(Out *out) {
    for (size_t done = 0; done < out->used;) {
        ssize_t written = write(out->file, out->bytes + done, out->used - done);
        if (written < 0) die("write");
        done += written;
    }
    out->used = 0;
}

static inline char *room(Out *out, size_t size) {
    if (out->used + size > OUT_BYTES) flush(out);
    return out->bytes + out->used;
}

static inline char *number(char *to, uint64_t value) {
    char digits[20];
    int count = 0;
    do digits[count++] = '0' + value % 10; while (value /= 10);
    while (count) *to++ = digits[--count];
    return to;
}

// A number and what stands behind it.
static inline char *field(char *to, uint64_t value, char behind) {
    to = number(to, value);
    *to++ = behind;
    return to;
}

// --- text -------------------------------------------------------------------------------------------------------------

// What stands behind the number and the one character that ends it.
static inline const char *read_number(const char *at, int64_t *number) {
    int64_t value = 0;
    for (unsigned digit; (digit = (unsigned char)*at++ - '0') < 10;) value = value * 10 + digit;
    *number = value;
    return at;
}

static inline const char *line_after(const char *at, const char *end) {
    const char *newline = (const char *)memchr(at, '\n', end - at);
    return newline ? newline + 1 : end;
}

static inline void say(const char *question, Result result, Moment start, Moment end) {
    double wall = end.wall - start.wall, cpu = end.cpu - start.cpu;
    printf("{\"question\": \"%s\", \"records\": %lu, \"answers\": %lu, \"sum\": %lu, \"cpu_s\": %.6f, \"kernel_s\": %.6f, \"wall_s\": %.6f, "
           "\"records_per_cpu_s\": %.1f, \"records_per_s\": %.1f}\n",
           question, result.records, result.answers, result.sum, cpu, end.kernel - start.kernel, wall, result.records / cpu, result.records / wall);
}
