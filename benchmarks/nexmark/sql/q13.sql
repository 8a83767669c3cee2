CREATE TABLE side_input (key BIGINT NOT NULL, value VARCHAR NOT NULL) WITH (path = 'SIDE');
SELECT B.auction, B.bidder, B.price, B.dateTime, B.extra, S.value
FROM bid B JOIN side_input FOR SYSTEM_TIME AS OF B.dateTime AS S ON MOD(B.auction, 10000) = S.key
