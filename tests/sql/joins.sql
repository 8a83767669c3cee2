-- : windows of both
SELECT b.auction, b.price, a.seller FROM (SELECT * FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(at), INTERVAL '10' SECOND))) b
JOIN (SELECT * FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(at), INTERVAL '10' SECOND))) a
ON b.auction = a.id AND b.window_start = a.window_start AND b.window_end = a.window_end;
-- : hopping windows of both, outer
SELECT b.auction, b.price, a.seller, a.id FROM (SELECT * FROM TABLE(HOP(TABLE bid, DESCRIPTOR(at), INTERVAL '5' SECOND, INTERVAL '10' SECOND))) b
FULL JOIN (SELECT * FROM TABLE(HOP(TABLE auction, DESCRIPTOR(at), INTERVAL '5' SECOND, INTERVAL '10' SECOND))) a
ON b.auction = a.id AND b.window_start = a.window_start AND b.window_end = a.window_end AND b.price > 10;
-- : answers of windows
WITH counts AS (SELECT auction, window_start, window_end, count(*) AS n FROM TABLE(HOP(TABLE bid, DESCRIPTOR(at), INTERVAL '4' SECOND, INTERVAL '12' SECOND))
    GROUP BY auction, window_start, window_end),
most AS (SELECT window_start, window_end, max(n) AS n FROM counts GROUP BY window_start, window_end)
SELECT counts.auction, counts.n, counts.window_end FROM counts JOIN most ON counts.window_start = most.window_start AND counts.window_end = most.window_end
WHERE counts.n >= most.n;
-- : a window's answers with its rows
SELECT b.auction, b.price, b.bidder FROM (SELECT * FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(at), INTERVAL '10' SECOND))) b
JOIN (SELECT window_start, window_end, max(price) AS most FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(at), INTERVAL '10' SECOND)) GROUP BY window_start, window_end) m
ON b.price = m.most AND b.window_start = m.window_start AND b.window_end = m.window_end;
-- : an interval
SELECT a.id, b.price, b.at FROM auction a JOIN bid b ON a.id = b.auction AND b.at BETWEEN a.at AND a.at + INTERVAL '12' SECOND AND b.at <= a.expires;
-- : an interval, left
SELECT a.id, a.category, b.price FROM auction a LEFT JOIN bid b ON a.id = b.auction AND b.at BETWEEN a.at - INTERVAL '2' SECOND AND a.at + INTERVAL '4' SECOND
    AND b.price > 30;
-- : an interval, right, with keys of one name
SELECT l.bidder AS lb, r.bidder AS rb, l.price AS lp, r.price AS rp FROM (SELECT * FROM bid WHERE channel = 'apple') l
RIGHT JOIN (SELECT * FROM bid WHERE channel = 'google') r ON l.bidder = r.bidder AND r.at - INTERVAL '5' SECOND <= l.at AND l.at < r.at;
-- : an interval by strict bounds, and a comma
SELECT a.id, b.price FROM auction a, bid b WHERE a.id = b.auction AND b.at > a.at AND b.at < a.at + INTERVAL '6' SECOND AND b.price > 20 AND a.category < 3;
-- : for a time that holds all
SET state_ttl = '1 d';
SELECT a.id, a.seller, b.price, p.name FROM auction a JOIN bid b ON a.id = b.auction JOIN person p ON a.seller = p.id WHERE b.price > 25 AND p.state = 'OR';
-- : using
SET state_ttl = '1 d';
SELECT l.price, r.n FROM (SELECT bidder, price FROM bid) l JOIN (SELECT id AS bidder, length(name) AS n FROM person) r USING (bidder);
-- : the last row that is not later
SELECT b.auction, b.price, p.name FROM bid b ASOF JOIN person p ON b.bidder = p.id AND b.at >= p.at;
-- : the same, left
SELECT b.auction, b.price, p.name FROM bid b ASOF LEFT JOIN person p ON b.bidder = p.id AND b.at >= p.at;
-- : as of a time
SELECT b.auction, p.state FROM bid b JOIN person FOR SYSTEM_TIME AS OF b.at AS p ON b.bidder = p.id WHERE b.price > 20;
-- : a table
SELECT auction, price, value FROM bid JOIN side ON price % 10 = key;
-- : a table, left
SELECT b.auction, s.key, s.value FROM bid b LEFT JOIN side s ON b.price = s.key;
-- : a table, left, by what is computed
SELECT b.auction, s.key, s.value FROM bid b LEFT JOIN side s ON b.price % 12 = s.key;
-- : a table, and a window over what is found
SELECT value, count(*) AS n FROM TABLE(TUMBLE((SELECT s.value, b.at FROM bid b JOIN side s ON b.price % 10 = s.key), DESCRIPTOR(at), INTERVAL '10' SECOND))
GROUP BY value, window_start, window_end;
-- : a window over a join
SELECT seller, count(*) AS n FROM TABLE(TUMBLE((SELECT a.seller, b.at FROM auction a JOIN bid b ON a.id = b.auction
    AND b.at BETWEEN a.at AND a.at + INTERVAL '1' MINUTE), DESCRIPTOR(at), INTERVAL '20' SECOND)) GROUP BY seller, window_start, window_end;
-- : a window's join, grouped
SELECT l.window_start, r.seller, count(*) AS n, max(l.price) AS most FROM (SELECT * FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(at), INTERVAL '10' SECOND))) l
JOIN (SELECT * FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(at), INTERVAL '10' SECOND))) r ON l.auction = r.id AND l.window_start = r.window_start
    AND l.window_end = r.window_end GROUP BY r.seller, l.window_start, l.window_end;
-- : WHERE behind a full join judges what has no match
SELECT a.id, b.price, p.name FROM auction a JOIN bid b ON a.id = b.auction AND b.at BETWEEN a.at AND a.at + INTERVAL '9' SECOND
FULL JOIN person p ON b.bidder = p.id AND p.at BETWEEN b.at - INTERVAL '9' SECOND AND b.at + INTERVAL '9' SECOND
WHERE coalesce(b.price, 1000) > a.category * 10 OR a.id IS NULL;
-- : using, everything
SELECT * FROM (SELECT bidder, price, at FROM bid) l JOIN (SELECT id AS bidder, at AS since FROM person) r USING (bidder)
WHERE r.since BETWEEN l.at - INTERVAL '9' SECOND AND l.at;
-- : WHERE judges the last row, and chooses no other
SELECT b.auction, p.name FROM bid b ASOF JOIN person p ON b.bidder = p.id AND b.at >= p.at WHERE p.state = 'OR' AND length(p.name) > b.auction % 4;
-- : equalities in WHERE are no keys of the last row
SELECT b.auction, p.name FROM bid b ASOF JOIN person p ON b.bidder = p.id AND b.at >= p.at WHERE length(p.name) = b.auction + 2;
-- : windows that are equal, and times
SELECT l.price, r.id FROM (SELECT * FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(at), INTERVAL '10' SECOND))) l
JOIN (SELECT * FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(at), INTERVAL '10' SECOND))) r ON l.auction = r.id AND l.window_start = r.window_start
    AND l.window_end = r.window_end AND r.at >= l.at;
-- : windows that are equal, and times, left
SELECT l.price, r.id FROM (SELECT * FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(at), INTERVAL '10' SECOND))) l
LEFT JOIN (SELECT * FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(at), INTERVAL '10' SECOND))) r ON l.auction = r.id AND l.window_start = r.window_start
    AND l.window_end = r.window_end AND r.at BETWEEN l.at AND l.at + INTERVAL '4' SECOND;
-- : windows that end together
SELECT l.auction, l.n, r.n AS m FROM (SELECT auction, window_time, count(*) AS n FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(at), INTERVAL '10' SECOND))
    GROUP BY auction, window_start, window_end, window_time) l JOIN (SELECT id, window_time, count(*) AS n FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(at),
    INTERVAL '10' SECOND)) GROUP BY id, window_start, window_end, window_time) r ON l.auction = r.id AND l.window_time = r.window_time;
-- : a span before the time
SELECT a.id, b.price FROM auction a JOIN bid b ON a.id = b.auction AND b.at BETWEEN a.at AND INTERVAL '5' SECOND + a.at;
