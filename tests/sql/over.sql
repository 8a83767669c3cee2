-- : over a span
SELECT auction, price, sum(price) OVER (PARTITION BY auction ORDER BY at RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW) AS s,
    count(*) OVER (PARTITION BY auction ORDER BY at RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW) AS n FROM bid;
-- : over rows
SELECT bidder, max(price) OVER (PARTITION BY bidder ORDER BY at ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS m,
    avg(price) OVER (PARTITION BY bidder ORDER BY at ROWS 4 PRECEDING) AS a FROM bid;
-- : lag
SELECT bidder, price, price - lag(price) OVER w AS more, lag(at, 2) OVER w AS long_ago, min(price) OVER w AS least FROM bid
WINDOW w AS (PARTITION BY bidder ORDER BY at ROWS BETWEEN 3 PRECEDING AND CURRENT ROW);
-- : over everything, computed
SELECT auction, sum(price * 2) OVER (ORDER BY at ROWS BETWEEN 5 PRECEDING AND CURRENT ROW) + 1 AS s FROM bid WHERE price > 10;
-- : conditions on it
SELECT bidder, before FROM (SELECT bidder, price, lag(price) OVER (PARTITION BY bidder ORDER BY at) AS before FROM bid) WHERE price > before;
-- : qualify
SELECT bidder, price FROM bid QUALIFY price >= max(price) OVER (PARTITION BY bidder ORDER BY at ROWS BETWEEN 3 PRECEDING AND CURRENT ROW);
-- : filtered
SELECT bidder, count(*) FILTER (WHERE price > 50) OVER (PARTITION BY bidder ORDER BY at ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS dear FROM bid;
-- : first rows of a window
SELECT auction, price, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC, at) AS rn
    FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(at), INTERVAL '10' SECOND))) WHERE rn <= 3;
-- : first rows of hopping windows, by key
SELECT auction, price FROM TABLE(HOP(TABLE bid, DESCRIPTOR(at), INTERVAL '5' SECOND, INTERVAL '10' SECOND))
QUALIFY ROW_NUMBER() OVER (PARTITION BY window_start, window_end, auction ORDER BY price, at DESC) < 3;
-- : first answers
SELECT auction, n, window_end FROM (SELECT auction, window_start, window_end, count(*) AS n
    FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(at), INTERVAL '10' SECOND)) GROUP BY auction, window_start, window_end)
QUALIFY ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC, auction) <= 2;
-- : the last of a window
SELECT bidder, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, bidder ORDER BY at DESC) AS rn
    FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(at), INTERVAL '10' SECOND))) WHERE rn = 1;
-- : the first of a key
SELECT auction, bidder, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY at) AS rn FROM bid) WHERE rn = 1 AND price > 10;
-- : first rows at the end
SELECT auction, price, at, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, at) AS rn FROM bid) WHERE rn <= 4 EMIT AT END;
-- : a computed order
SELECT auction, price FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(at), INTERVAL '10' SECOND))
QUALIFY ROW_NUMBER() OVER (PARTITION BY window_start, window_end, auction % 2 ORDER BY price % 10 DESC, at) = 1;
-- : numbered
SELECT auction, price, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY at) AS rn FROM bid;
-- : every second of a key
SELECT auction, price, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY at) AS rn FROM bid WHERE price > 5) WHERE rn % 2 = 0 AND price < 900;
-- : the second and third, and ten times their number
SELECT auction, at, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY at) * 10 AS tens FROM bid QUALIFY ROW_NUMBER() OVER (PARTITION BY auction ORDER BY at) BETWEEN 2 AND 3;
-- : numbers that are grouped
SELECT rn % 3 AS third, count(*) AS n FROM (SELECT ROW_NUMBER() OVER (ORDER BY at) AS rn FROM bid) b GROUP BY rn % 3 EMIT AT END;
-- : windows of windows
SELECT auction, sum(price) OVER w2 AS s, lag(price) OVER (w ORDER BY at) AS before FROM bid
WINDOW w AS (PARTITION BY auction), w2 AS (w ORDER BY at ROWS BETWEEN 3 PRECEDING AND CURRENT ROW);
-- : the second of a key, and no other
SELECT auction, price, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY at) AS rn FROM bid) WHERE rn = 2;
