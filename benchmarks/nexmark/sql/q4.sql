-- An auction is open for OPEN at most, which bounds how long it is kept. Averages are of integers, as of the suite's BIGINT.
SELECT Q.category, SUM(Q.final) // COUNT(*) AS average
FROM (
    SELECT MAX(B.price) AS final, A.category
    FROM auction A, bid B
    WHERE A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires AND B.dateTime <= A.dateTime + INTERVAL OPEN
    GROUP BY A.id, A.category EMIT AT END
) Q
GROUP BY Q.category EMIT AT END
