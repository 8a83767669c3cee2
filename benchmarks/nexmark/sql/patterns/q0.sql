-- prices that a bidder bids on an auction, falling and then rising
SET state_ttl = '1 d';

SELECT auction, bidder, began, lowest, ended
FROM bid MATCH_RECOGNIZE (
    PARTITION BY auction, bidder
    ORDER BY dateTime
    MEASURES FIRST(start_row.dateTime) AS began, LAST(down.dateTime) AS lowest, LAST(up.dateTime) AS ended
    AFTER MATCH SKIP TO LAST up
    PATTERN (start_row down+ up)
    DEFINE
        down AS (LAST(down.price, 1) IS NULL AND down.price < start_row.price) OR down.price < LAST(down.price, 1),
        up AS up.price > LAST(down.price, 1)
);
