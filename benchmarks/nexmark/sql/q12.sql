-- A stream without WATERMARK is stamped as rows arrive: processing time.
SELECT B.bidder, count(*) AS bids, window_start AS starttime, window_end AS endtime
FROM TABLE(TUMBLE(TABLE arriving, DESCRIPTOR(rowtime), INTERVAL '10' SECOND)) AS B
GROUP BY B.bidder, window_start, window_end
