-- a price more than 50 below the first within five seconds
SELECT auction, bidder, dropped, difference
FROM bid MATCH_RECOGNIZE (
    PARTITION BY auction, bidder
    ORDER BY dateTime
    MEASURES later.dateTime AS dropped, first_bid.price - later.price AS difference
    AFTER MATCH SKIP PAST LAST ROW
    PATTERN (first_bid near* later) WITHIN INTERVAL '5' SECOND
    DEFINE near AS near.price > first_bid.price - 50, later AS later.price < first_bid.price - 50
);
