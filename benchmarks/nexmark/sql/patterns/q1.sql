-- the longest runs of bids that cost less than 10,000 on average
SET state_ttl = '1 d';

SELECT auction, bidder, began, ended, average
FROM bid MATCH_RECOGNIZE (
    PARTITION BY auction, bidder
    ORDER BY dateTime
    MEASURES FIRST(low.dateTime) AS began, LAST(low.dateTime) AS ended, AVG(low.price) AS average
    AFTER MATCH SKIP PAST LAST ROW
    PATTERN (low+ behind)
    DEFINE low AS AVG(low.price) < 10000
);
