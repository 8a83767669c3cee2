SET state_ttl = '36500 d';
SELECT B.bidder, B.price, B.channel, B.url, B.extra,
    P.id, P.name, P.emailAddress, P.creditCard, P.city, P.state, P.extra AS p_extra,
    A.itemName, A.description, A.initialBid, A.reserve, A.dateTime, A.expires, A.seller, A.category, A.extra AS a_extra
FROM bid AS B JOIN person AS P ON P.id = B.bidder JOIN auction AS A ON A.seller = B.bidder
