-- : columns
SELECT auction, price AS p, channel FROM bid;
-- : everything but
SELECT * EXCEPT (url) FROM bid;
-- : arithmetic
SELECT price * 2 + 1 AS a, price // 7 AS b, price % 7 AS c, -price AS d, price / 4 AS e, abs(price - 50) AS f, price * 0.5 AS g, mod(price, 3) AS h FROM bid;
-- : conditions
SELECT auction, price FROM bid WHERE price BETWEEN 20 AND 80 AND channel IN ('apple', 'google') OR channel IS NULL AND NOT price > 50;
-- : three values
SELECT price > 50 AS a, price > 50 AND channel = 'apple' AS b, price > 50 OR channel = 'apple' AS c, NOT price > 50 AS d, channel IS NULL AS e,
    price > 50 IS TRUE AS f, channel IS DISTINCT FROM 'apple' AS g, channel IS NOT DISTINCT FROM NULL AS h FROM bid;
-- : case
SELECT CASE WHEN price < 30 THEN 'cheap' WHEN price < 60 THEN NULL ELSE 'dear' END AS a, CASE channel WHEN 'apple' THEN 1 WHEN 'google' THEN 2 END AS b,
    coalesce(channel, 'none') AS c, nullif(channel, 'apple') AS d, if(price > 50, 1, 0) AS e, ifnull(price, -1) AS f FROM bid;
-- : casts
SELECT CAST(price AS VARCHAR) AS a, price::DOUBLE AS b, TRY_CAST(channel AS BIGINT) AS c, CAST('12' AS BIGINT) + price AS d, CAST(price > 3 AS INT) AS e,
    TRY_CAST('soon' AS TIMESTAMP) AS f, TRY_CAST('2024-05-01 00:00:30' AS TIMESTAMP) AS g FROM bid;
-- : texts
SELECT upper(channel) AS a, length(url) AS b, substring(url, 9, 4) AS c, substring(url, 12) AS n, SUBSTRING(url FROM 3 FOR 2) AS d, channel || '-' || url AS e,
    split_part(url, '/', 3) AS f, split_index(url, '/', 2) AS g, replace(url, '/', '.') AS h, reverse(channel) AS i, left(url, 5) AS j,
    starts_with(url, 'https') AS k, contains(url, 'item') AS l, lpad(channel, 8, '.') AS m FROM bid;
-- : patterns of text
SELECT channel FROM bid WHERE channel LIKE 'a%e' OR channel LIKE '_oo%' OR url LIKE '%!_1' ESCAPE '!' OR regexp_like(url, 'item/1.$');
-- : what regular expressions find
SELECT regexp_extract(url, 'item/([0-9]+)', 1) AS a FROM bid WHERE regexp_matches(url, 'item/[0-9]+');
-- : mathematics
SELECT round(x * 0.371, 2) AS a, floor(x) AS b, ceil(x) AS c, sqrt(abs(x)) AS d, power(x, 2) AS e, ln(abs(x) + 1) AS f, greatest(x, 3.5) AS g,
    least(price, 50) AS h, sign(x) AS i FROM (SELECT price / 8 - 3.25 AS x, price FROM bid WHERE price IS NOT NULL);
-- : time
SELECT year(at) AS a, month(at) AS b, EXTRACT(DAY FROM at) AS c, hour(at) AS d, minute(at) AS e, second(at) AS f, date_trunc('minute', at) AS g,
    at + INTERVAL '90' SECOND AS h, at - INTERVAL '1' DAY AS i, epoch_ms(at) AS j, strftime(at, '%Y-%m-%d %H:%M:%S') AS k, isodow(at) AS l,
    weekday(at + INTERVAL '4' DAY) AS m, isodow(at + INTERVAL '4' DAY) AS n FROM bid;
-- : instants
SELECT auction, at FROM bid WHERE at > TIMESTAMP '2024-05-01 00:00:30' AND at <= CAST('2024-05-01 00:01:00' AS TIMESTAMP);
-- : lists
SELECT string_split(url, '/')[3] AS a, cardinality(string_split(url, '/')) AS b, array_to_string(string_split(url, '/'), '+') AS c FROM (SELECT url FROM bid);
-- : a list as rows
SELECT u.part, b.auction FROM (SELECT auction, string_split(url, '/') AS parts FROM bid) b CROSS JOIN UNNEST(b.parts) AS u (part);
-- : subqueries, views and names
CREATE VIEW dear AS SELECT auction AS a, price * 2 AS twice FROM bid WHERE price > 40;
WITH w AS (SELECT a, twice + 1 AS more FROM dear), v AS (SELECT a AS b, more FROM w WHERE more > 100) SELECT b AS a, more AS b FROM v;
-- : union all
SELECT auction, price FROM bid WHERE price > 50 UNION ALL SELECT id, category FROM auction UNION ALL SELECT auction, NULLIF(price, 7) FROM bid;
-- : union all of queries in brackets
(SELECT auction, price FROM bid WHERE price > 50) UNION ALL ((SELECT id, category FROM auction) UNION ALL (SELECT auction, divide(price, 7) FROM bid));
-- : the same rows twice
SELECT auction, price FROM bid WHERE price > 50 UNION ALL SELECT auction, price FROM bid WHERE price > 50;
-- : distinct
SELECT DISTINCT channel, price > 50 AS dear FROM bid;
-- : in the order of event time
SELECT auction FROM bid ORDER BY at;
-- : no pattern of text
SELECT channel, url FROM bid WHERE channel NOT LIKE 'a%' OR url NOT ILIKE '%ITEM/1%' OR url NOT LIKE '%!_1' ESCAPE '!';
-- : what does not match, of each row
SELECT channel NOT LIKE '_oo%' AS a, NOT (channel LIKE '_oo%') AS b, count(*) FILTER (WHERE channel NOT LIKE 'a%') AS n FROM bid GROUP BY a, b EMIT AT END;
-- : between, either way round
SELECT price BETWEEN SYMMETRIC 80 AND 20 AS a, price NOT BETWEEN SYMMETRIC 80 AND 20 AS b FROM bid;
-- : a list as rows, some of them
SELECT b.auction, u.part FROM (SELECT auction, string_split(url, '/') AS parts FROM bid) b JOIN UNNEST(b.parts) AS u (part) ON u.part <> 'item' AND b.auction > 2;
-- : names behind an alias
SELECT x.price AS a, x.auction AS b FROM (SELECT auction, price FROM bid) AS x (price, auction) WHERE x.price > 2;
-- : names behind WITH, fewer than there are
WITH w (price) AS (SELECT auction, price AS p FROM bid) SELECT price, p FROM w;
-- : names of a stream
SELECT x.a, x.b FROM bid AS x (a, b);
-- : NULL of a group, where its type is that of another value
SELECT auction, CASE WHEN count(price) < 15 THEN NULL ELSE sum(price) // count(price) END AS a, nullif(max(price), NULL) AS b, coalesce(NULL, min(price)) AS c
FROM bid GROUP BY auction EMIT AT END;
-- : spans with a sign and in brackets
SELECT at + (INTERVAL '90' SECOND) AS a, at - (- INTERVAL '1' DAY) AS b, at + - INTERVAL '2' HOUR AS c FROM bid;
