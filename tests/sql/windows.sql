-- : tumbling
SELECT auction, window_start, window_end, count(*) AS n, sum(price) AS total, min(price) AS least, max(price) AS most, avg(price) AS mean
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(at), INTERVAL '10' SECOND)) GROUP BY auction, window_start, window_end;
-- : tumbling with an offset
SELECT window_start, count(channel) AS n FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(at), INTERVAL '10' SECOND, OFFSET => INTERVAL '3' SECOND))
GROUP BY window_start, window_end;
-- : hopping
SELECT channel, window_end, count(*) AS n, count(DISTINCT bidder) AS who FROM TABLE(HOP(TABLE bid, DESCRIPTOR(at), INTERVAL '4' SECOND, INTERVAL '12' SECOND))
GROUP BY channel, window_start, window_end;
-- : cumulating
SELECT window_start, window_end, sum(price) AS total FROM TABLE(CUMULATE(TABLE bid, DESCRIPTOR(at), INTERVAL '5' SECOND, INTERVAL '20' SECOND))
GROUP BY window_start, window_end;
-- : sessions
SELECT bidder, window_start, window_end, count(*) AS n, sum(price) AS total
FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(at), INTERVAL '3' SECOND)) GROUP BY bidder, window_start, window_end;
-- : windows by rows
SELECT bidder, sum(price) AS total, max(at) AS until FROM TABLE(SIZE(TABLE bid PARTITION BY bidder, 3)) GROUP BY bidder, window_start, window_end;
-- : filtered functions and having
SELECT auction, count(*) FILTER (WHERE price > 50) AS dear, sum(price) FILTER (WHERE channel = 'apple') AS apple, avg(price * 2) AS twice
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(at), INTERVAL '15' SECOND)) WHERE price IS NOT NULL GROUP BY auction, window_start, window_end
HAVING count(*) > 1 AND max(price) > 30;
-- : keys that are computed
SELECT price // 20 AS class, upper(channel) AS c, count(*) AS n FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(at), INTERVAL '30' SECOND))
GROUP BY price // 20, upper(channel), window_start, window_end;
-- : of a row of the group
SELECT window_start, arg_max(bidder, price * 1000000 + epoch_ms(at) % 1000000) AS best FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(at), INTERVAL '10' SECOND))
WHERE price IS NOT NULL GROUP BY window_start, window_end;
-- : statistics
SELECT var_pop(price) AS a, stddev_samp(price) AS b FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(at), INTERVAL '30' SECOND)) GROUP BY window_start, window_end;
-- : expressions over groups
SELECT auction + 1 AS a, sum(price) * 1.0 / count(*) AS mean, CASE WHEN count(*) > 2 THEN 'many' ELSE 'few' END AS kind,
    window_end - INTERVAL '1' SECOND AS last FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(at), INTERVAL '10' SECOND)) GROUP BY auction, window_start, window_end;
-- : answers of a window, grouped again
WITH counts AS (SELECT auction, window_start, window_end, count(*) AS n FROM TABLE(HOP(TABLE bid, DESCRIPTOR(at), INTERVAL '4' SECOND, INTERVAL '12' SECOND))
    GROUP BY auction, window_start, window_end)
SELECT window_start, window_end, max(n) AS most, count(*) AS auctions FROM counts GROUP BY window_start, window_end;
-- : a window over a filtered and renamed subquery
SELECT a, count(*) AS n FROM TABLE(TUMBLE((SELECT auction AS a, at AS t FROM bid WHERE price > 20), DESCRIPTOR(t), INTERVAL '10' SECOND))
GROUP BY a, window_start, window_end;
-- : a window over a window's answers
SELECT sum(n) AS n FROM TABLE(TUMBLE((SELECT window_time AS t, count(*) AS n FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(at), INTERVAL '5' SECOND))
    GROUP BY window_start, window_end, window_time), DESCRIPTOR(t), INTERVAL '20' SECOND)) GROUP BY window_start, window_end;
-- : bounds of rows
SELECT auction, window_start, window_end FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(at), INTERVAL '10' SECOND));
-- : at the end
SELECT channel, count(*) AS n, sum(price) AS total FROM bid GROUP BY channel EMIT AT END;
-- : all at the end, twice
SELECT n, count(*) AS auctions FROM (SELECT auction, count(*) AS n FROM bid GROUP BY auction EMIT AT END) GROUP BY n EMIT AT END;
-- : keys without functions
SELECT auction, window_start FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(at), INTERVAL '10' SECOND)) GROUP BY auction, window_start, window_end;
