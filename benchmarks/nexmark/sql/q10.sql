-- Day and minute, the suite's partition, are columns: each instance writes one file.
CREATE SINK answers WITH (connector = 'files', path = 'FILES', format = 'text', overwrite = true);
INSERT INTO answers
SELECT auction, bidder, price, dateTime, extra, DATE_FORMAT(dateTime, 'yyyy-MM-dd') AS day, DATE_FORMAT(dateTime, 'HH:mm') AS minute FROM bid
