SELECT B.bidder, count(*) AS bids, window_start AS starttime, window_end AS endtime
FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(dateTime), INTERVAL '10' SECOND)) AS B
GROUP BY B.bidder, window_start, window_end
