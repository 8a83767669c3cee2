-- the same, from every bid on
SET state_ttl = '1 d';

SELECT auction, bidder, began, ended, average
FROM bid MATCH_RECOGNIZE (
    PARTITION BY auction, bidder
    ORDER BY dateTime
    MEASURES FIRST(low.dateTime) AS began, LAST(low.dateTime) AS ended, AVG(low.price) AS average
    AFTER MATCH SKIP TO NEXT ROW
    PATTERN (low+ behind)
    DEFINE low AS AVG(low.price) < 10000
);
